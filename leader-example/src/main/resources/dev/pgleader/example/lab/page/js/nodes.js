// One card with buttons for each node.

import {post} from './actions.js';
import {describe} from './help.js';
import {REASONS, labelOf, stateOf} from './states.js';

/** Each button: what it says, what it asks for, and when that makes sense. One place can have two in turn. */
const BUTTONS = [
  [{label: 'kill −9', action: 'kill', when: node => node.pid !== 0}],
  [{label: 'Restart', action: 'restart', when: () => true}],
  [
    {label: 'Pause', action: 'pause', when: node => node.pid !== 0, shown: node => !node.paused},
    {label: 'Continue', action: 'continue', when: node => node.pid !== 0, shown: node => node.paused},
  ],
  [{label: 'Pause mid-job', action: 'pause-in-job', when: node => node.state === 'LEADER'}],
  [
    {label: 'Suspend', action: 'suspend', when: node => node.pid !== 0 && !node.paused, shown: node => node.state !== 'SUSPENDED'},
    {label: 'Wake up', action: 'wake-up', when: () => true, shown: node => node.state === 'SUSPENDED'},
  ],
  [
    {label: 'Cut network', action: 'cut', when: () => true, shown: node => !node.cutOff},
    {label: 'Heal network', action: 'heal', when: () => true, shown: node => node.cutOff},
  ],
  [{label: 'Terminate session', action: 'terminate-session', when: node => node.pid !== 0 && node.state !== 'CONNECTING'}],
  [{label: 'Resign', action: 'resign', when: node => node.leads && !node.paused && node.pid !== 0}],
];

export class Nodes {
  #list;
  #cards = new Map();

  constructor(list) {
    this.#list = list;
  }

  reset() {
    this.#list.replaceChildren();
    this.#cards.clear();
  }

  get size() {
    return this.#cards.size;
  }

  node(node) {
    const card = this.#cards.get(node.node) ?? this.#create(node.node);
    card.root.className = `card ${stateOf(node)}`;
    card.root.dataset.state = node.state;
    card.state.textContent = labelOf(node);
    const remark = REASONS[node.remark] ?? node.remark;
    card.process = node.pid === 0 ? remark : `process ${node.pid}${remark ? ` · ${remark}` : ''}`;
    card.job = '';
    this.#facts(card);
    BUTTONS.forEach((choices, i) => {
      const choice = choices.find(candidate => candidate.shown?.(node)) ?? choices[0];
      const button = card.buttons[i];
      button.textContent = choice.label;
      button.dataset.action = choice.action;
      button.dataset.help = choice.label;
      describe(button);
      button.setAttribute('aria-label', `${choice.label}: ${node.node}`);
      button.setAttribute('aria-disabled', String(!choice.when(node)));
    });
  }

  job(job) {
    const card = this.#cards.get(job.node);
    if (card) {
      card.job = job.progress === 'ENDED' ? '' : `in the middle of mail ${job.number}`;
      this.#facts(card);
    }
  }

  #facts(card) {
    card.facts.textContent = [card.process, card.job].filter(text => text).join(' · ');
  }

  #create(name) {
    const root = document.createElement('li');
    root.dataset.node = name;
    const title = document.createElement('div');
    title.className = 'title';
    const heading = document.createElement('h3');
    heading.textContent = name;
    const state = document.createElement('span');
    state.className = 'state';
    title.append(heading, state);
    const facts = document.createElement('p');
    facts.className = 'facts';
    const group = document.createElement('div');
    group.className = 'buttons';
    const buttons = BUTTONS.map(() => {
      const button = document.createElement('button');
      button.type = 'button';
      button.addEventListener('click', () => post(`api/nodes/${name}/${button.dataset.action}`, button));
      return button;
    });
    group.append(...buttons);
    root.append(title, facts, group);
    this.#list.append(root);
    const card = {root, state, facts, buttons, process: '', job: ''};
    this.#cards.set(name, card);
    return card;
  }
}
