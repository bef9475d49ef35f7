// For how long nobody led, by what ended the term before.

import * as clock from './clock.js';

export class Failovers {
  /** Cause by cause, how long each gap was. */
  #gaps = new Map();
  #rows;
  #count;

  constructor(rows, count) {
    this.#rows = rows;
    this.#count = count;
    this.#show();
  }

  reset() {
    this.#gaps.clear();
    this.#show();
  }

  add(failover) {
    const gaps = this.#gaps.get(failover.cause) ?? [];
    gaps.push(failover.gapMillis);
    gaps.sort((a, b) => a - b);
    this.#gaps.set(failover.cause, gaps);
    this.#show();
  }

  #show() {
    this.#rows.replaceChildren(...[...this.#gaps].map(([cause, gaps]) => {
      const row = document.createElement('tr');
      for (const text of [cause, gaps.length, clock.duration(median(gaps)), clock.duration(gaps.at(-1))]) {
        row.insertCell().textContent = text;
      }
      return row;
    }));
    const all = [...this.#gaps.values()].flat();
    this.#count.textContent = all.length === 0
      ? 'No failover yet.'
      : `${all.length} failover${all.length === 1 ? '' : 's'}, the longest took ${clock.duration(Math.max(...all))}`;
  }
}

function median(sorted) {
  return sorted[Math.floor((sorted.length - 1) / 2)];
}
