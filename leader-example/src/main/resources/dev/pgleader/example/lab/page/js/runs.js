// The job of several steps, newest step first.

import * as clock from './clock.js';

const SHOWN = 100;

export class Runs {
  #rows;
  #count;
  #numbers = new Set();
  #doubled = 0;

  constructor(rows, count) {
    this.#rows = rows;
    this.#count = count;
    this.#show();
  }

  reset() {
    this.#numbers.clear();
    this.#doubled = 0;
    this.#rows.replaceChildren();
    this.#show();
  }

  run(atMillis, run) {
    this.#numbers.add(run.run);
    this.#doubled += run.alone ? 0 : 1;
    const row = document.createElement('tr');
    row.className = run.alone ? '' : 'late';
    for (const text of [clock.text(atMillis), run.node, run.term, words(run)]) {
      row.insertCell().textContent = text;
    }
    this.#rows.prepend(row);
    while (this.#rows.rows.length > SHOWN) {
      this.#rows.lastElementChild.remove();
    }
    this.#show();
  }

  #show() {
    this.#count.textContent = `${this.#numbers.size} jobs begun, ${this.#doubled} steps of a doubled one`;
  }
}

function words(run) {
  if (run.abandoned) {
    return `job ${run.run} ended early: its node has lost the leadership`;
  }
  const what = run.step === 0 ? 'begins' : `step ${run.step} of ${run.steps} done`;
  return `job ${run.run} ${what}${run.alone ? '' : ', while another node is in the middle of one'}`;
}
