// The work that was done, newest first.

import * as clock from './clock.js';

const SHOWN = 100;

const WORDS = {
  IN_TERM: work => `mail ${work.number} sent`,
  TOO_LATE: work => `mail ${work.number} sent too late: ${work.remark}`,
  COMMITTED: work => `entry ${work.number} committed`,
  ROLLED_BACK: work => `entry ${work.number} rolled back: ${work.remark}`,
};

export class Ledger {
  #rows = {};
  #counts = {};
  #numbers = {rows: 0, overlapping: 0};
  #counters;

  constructor(rows, counters) {
    this.#rows = rows;
    this.#counters = counters;
    this.reset();
  }

  reset() {
    this.#counts = {IN_TERM: 0, TOO_LATE: 0, COMMITTED: 0, ROLLED_BACK: 0};
    Object.values(this.#rows).forEach(body => body.replaceChildren());
    this.#count();
  }

  work(atMillis, work) {
    this.#counts[work.outcome]++;
    const row = document.createElement('tr');
    row.className = {TOO_LATE: 'late', ROLLED_BACK: 'rolled-back'}[work.outcome] ?? '';
    for (const text of [clock.text(atMillis), work.node, work.term, WORDS[work.outcome](work)]) {
      const cell = document.createElement('td');
      cell.textContent = text;
      row.append(cell);
    }
    const body = this.#rows[work.job];
    body.prepend(row);
    while (body.rows.length > SHOWN) {
      body.lastElementChild.remove();
    }
    this.#count();
  }

  entries(numbers) {
    this.#numbers = numbers;
    this.#count();
  }

  #count() {
    const {IN_TERM, TOO_LATE, ROLLED_BACK} = this.#counts;
    this.#counters.MAIL.textContent = `${IN_TERM + TOO_LATE} mails, ${TOO_LATE} of them too late`;
    this.#counters.ENTRY.textContent = `${this.#numbers.rows} entries in the table, ${this.#numbers.overlapping} written`
      + ` while another was being written; ${ROLLED_BACK} rolled back`;
  }
}
