// What happened, in words.

import * as clock from './clock.js';
import {labelOf} from './states.js';

const SHOWN = 200;

export class Story {
  #list;

  constructor(list) {
    this.#list = list;
  }

  reset() {
    this.#list.replaceChildren();
  }

  fault(atMillis, fault) {
    this.#add(atMillis, `You: ${fault.label} ${fault.target === 'PostgreSQL' ? '' : fault.target}`);
  }

  node(atMillis, node) {
    this.#add(atMillis, `${node.node}: ${labelOf(node)}${node.remark ? ` (${node.remark})` : ''}`);
  }

  holder(atMillis, holder) {
    this.#add(atMillis, holder.reachable
      ? `PostgreSQL shows the lock ${holder.node ? `held by ${holder.node}` : 'free'}`
      : 'PostgreSQL is down');
  }

  failover(atMillis, failover) {
    this.#add(atMillis, `${failover.to} leads after ${clock.duration(failover.gapMillis)} without a leader`
      + ` (${failover.from}: ${failover.cause})`);
  }

  trouble(atMillis, trouble) {
    this.#add(atMillis, trouble.message);
  }

  #add(atMillis, words) {
    const item = document.createElement('li');
    const time = document.createElement('time');
    time.textContent = clock.text(atMillis);
    item.append(time, ` ${words}`);
    this.#list.prepend(item);
    while (this.#list.children.length > SHOWN) {
      this.#list.lastElementChild.remove();
    }
  }
}
