// What each button does: the table of docs/lab.md, as tooltips and as a list on the page.

const ROW = /^\| ([^|]+) \| ([^|]+) \|$/;

let help = new Map();

/** Reads the table, and tells the buttons that are there. */
export async function load(list) {
  const page = await (await fetch('docs/lab.md')).text();
  const table = page.split('## What the buttons do')[1].split('\n## ')[0];
  const rows = table.split('\n').map(line => ROW.exec(line)).filter(row => row && row[1] !== 'button');
  help = new Map(rows.map(([, buttons, text]) => [buttons.trim(), plain(text)]));
  for (const [buttons, text] of help) {
    const term = document.createElement('dt');
    const description = document.createElement('dd');
    term.textContent = buttons;
    description.textContent = text;
    list.append(term, description);
  }
  document.querySelectorAll('[data-help]').forEach(describe);
}

/** Gives a button its tooltip, as soon as it's known. */
export function describe(button) {
  for (const [buttons, text] of help) {
    if (buttons.split(', ').includes(button.dataset.help)) {
      button.title = text;
    }
  }
}

function plain(markdown) {
  return markdown.trim().replace(/`/g, '');
}
