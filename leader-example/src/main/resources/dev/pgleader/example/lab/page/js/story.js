// What happened, in plain words and in the order of time.

import * as clock from './clock.js';
import {REASONS, stateOf} from './states.js';

const SHOWN = 200;

const DEEDS = {
  'kill -9': node => `You killed ${node}, in the middle of whatever it did.`,
  'restart': node => `${node} is restarted, in order.`,
  'pause': node => `You paused ${node}.`,
  'continue': node => `You let ${node} go on.`,
  'suspend': node => `You suspended the machine of ${node}.`,
  'wake up': node => `You woke up the machine of ${node}.`,
  'cut network': node => `You cut the network of ${node}.`,
  'heal network': node => `You healed the network of ${node}.`,
  'terminate session': node => `You had PostgreSQL end the session of ${node}.`,
  'resign': node => `You had ${node} resign.`,
  'restart PostgreSQL': () => 'You restarted PostgreSQL. All sessions end, and with them the lock.',
  'forged notices': () => 'You had a stranger, who may only connect, tell lies to all nodes.',
  'rolling deployment': () => 'You began a rolling deployment: one node after the other is restarted.',
};

const STATES = {
  'leader': node => `leads now: term ${node.term}.`,
  'taking-over': () => 'has the lock, and is about to lead.',
  'follower': () => 'waits for the lock.',
  'connecting': node => node.state === 'STARTING' ? 'starts.' : 'has no session with PostgreSQL.',
  'paused': () => 'stands still. It does nothing, and can’t notice that time passes.',
  'suspended': () => 'stands still, and answers nobody.',
  'cut-off': () => 'can’t reach PostgreSQL, and knows that it doesn’t lead.',
  'cut-off-leader': () => 'can’t reach PostgreSQL. It still leads, for as long as nobody else can have the lock.',
  'dead': () => 'has no process any more.',
};

export class Story {
  #list;
  /** Whoever scrolls back is left where they are. */
  #follows = true;

  constructor(list) {
    this.#list = list;
    list.addEventListener('scroll', () => {
      this.#follows = list.scrollTop + list.clientHeight >= list.scrollHeight - 30;
    });
  }

  reset() {
    this.#list.replaceChildren();
  }

  fault(atMillis, fault) {
    this.#add(atMillis, DEEDS[fault.label](fault.target), 'deed');
  }

  node(atMillis, node) {
    const reason = REASONS[node.remark] ? ` It led no longer: ${REASONS[node.remark]}.` : '';
    this.#add(atMillis, `${node.node} ${STATES[stateOf(node)](node)}${reason}`);
  }

  holder(atMillis, holder) {
    this.#add(atMillis, !holder.reachable ? 'PostgreSQL is down.' : holder.node
      ? `PostgreSQL shows: ${holder.node} holds the lock.` : 'PostgreSQL shows: the lock is free.');
  }

  failover(atMillis, failover) {
    this.#add(atMillis, `Nobody had led for ${clock.duration(failover.gapMillis)}, between ${failover.from} and ${failover.to}.`, 'gap');
  }

  note(atMillis, note) {
    this.#add(atMillis, `${note.message}.`);
  }

  trouble(atMillis, trouble) {
    this.#add(atMillis, trouble.message);
  }

  #add(atMillis, words, kind = '') {
    const item = document.createElement('li');
    item.className = kind;
    const time = document.createElement('time');
    time.textContent = clock.text(atMillis);
    item.append(time, ` ${words}`);
    this.#list.append(item);
    while (this.#list.children.length > SHOWN) {
      this.#list.firstElementChild.remove();
    }
    if (this.#follows) {
      this.#list.scrollTop = this.#list.scrollHeight;
    }
  }
}
