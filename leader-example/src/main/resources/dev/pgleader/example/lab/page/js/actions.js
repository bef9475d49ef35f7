// What the buttons ask the supervisor for.

const alertBox = document.getElementById('alert');

/** Tells people what went wrong; an empty text tells them that nothing did. */
export function warn(text) {
  alertBox.textContent = text;
  alertBox.hidden = text === '';
}

/** Posts to the supervisor, with the button marked busy until the answer is there. */
export async function post(path, button, body) {
  if (button.getAttribute('aria-disabled') === 'true' || button.getAttribute('aria-busy') === 'true') {
    return;
  }
  button.setAttribute('aria-busy', 'true');
  try {
    const response = await fetch(path, {
      method: 'POST',
      headers: body ? {'Content-Type': 'application/json'} : {},
      body: body && JSON.stringify(body),
    });
    const answer = await response.json().catch(() => ({message: `The lab answers ${response.status}`}));
    warn(response.ok ? '' : answer.message ?? answer.detail ?? `The lab answers ${response.status}`);
  } catch (problem) {
    warn(`The lab doesn't answer: ${problem.message}`);
  } finally {
    button.removeAttribute('aria-busy');
  }
}
