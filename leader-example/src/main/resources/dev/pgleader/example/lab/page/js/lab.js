// Reads the lab's log, and passes each event on to those parts of the page that show it.

import {post, warn} from './actions.js';
import * as clock from './clock.js';
import {Failovers} from './failovers.js';
import {Ledger} from './ledger.js';
import {Nodes} from './nodes.js';
import {STATES} from './states.js';
import {Story} from './story.js';
import {Timeline} from './timeline.js';

const FRAME_MILLIS = 250;

/** The ways in which a candidate can get the lock; the words for {@code AcquisitionMode}. */
const MODES = {POLL: 'poll for it', QUEUE: 'wait in the server’s queue'};

const byId = id => document.getElementById(id);

const timeline = new Timeline(byId('timeline'), byId('span'));
const failovers = new Failovers(byId('failovers'), byId('failover-count'));
const nodes = new Nodes(byId('cards'));
const ledger = new Ledger(
  {MAIL: byId('mails'), ENTRY: byId('entries')},
  {MAIL: byId('mail-count'), ENTRY: byId('entry-count')},
);
const story = new Story(byId('story'));
const settings = byId('settings');

let leaders = new Map();
let holder = {};
let lastFailover;
let mostNodes = Infinity;

const handlers = {
  time() {},
  lab(atMillis, lab) {
    for (const part of [timeline, failovers, nodes, ledger, story]) {
      part.reset();
    }
    leaders = new Map();
    lastFailover = undefined;
    mostNodes = lab.mostNodes;
    for (const name of ['leaseMillis', 'retryMillis', 'jobMillis', 'mode']) {
      settings.elements[name].value = lab[name];
    }
  },
  node(atMillis, node) {
    timeline.node(atMillis, node);
    nodes.node(node);
    story.node(atMillis, node);
    if (node.leads && node.state !== 'PAUSED' && node.state !== 'DEAD') {
      leaders.set(node.node, node.term);
    } else {
      leaders.delete(node.node);
    }
    byId('add-node').setAttribute('aria-disabled', String(nodes.size >= mostNodes));
  },
  holder(atMillis, change) {
    holder = change;
    timeline.holder(atMillis, change);
    story.holder(atMillis, change);
  },
  fault(atMillis, fault) {
    timeline.fault(atMillis, fault);
    story.fault(atMillis, fault);
  },
  failover(atMillis, failover) {
    lastFailover = failover;
    timeline.failover(failover);
    failovers.add(failover);
    story.failover(atMillis, failover);
  },
  job(atMillis, job) {
    nodes.job(job);
  },
  work(atMillis, work) {
    ledger.work(atMillis, work);
  },
  entries(atMillis, entries) {
    ledger.entries(entries);
  },
  trouble(atMillis, trouble) {
    story.trouble(atMillis, trouble);
    warn(trouble.message);
  },
};

function describe() {
  const who = leaders.size === 0
    ? 'Nobody leads'
    : [...leaders].map(([node, term]) => `${node} leads, term ${term}`).join('; ');
  const server = !holder.reachable ? 'PostgreSQL is down' : holder.node
    ? `PostgreSQL shows ${holder.node}` : 'PostgreSQL shows the lock free';
  const gap = lastFailover ? ` · last gap ${clock.duration(lastFailover.gapMillis)}` : '';
  const text = `${who} · ${server}${gap}`;
  if (byId('leadership').textContent !== text) {
    byId('leadership').textContent = text;
  }
}

function listen() {
  const events = new EventSource('events');
  for (const [type, handle] of Object.entries(handlers)) {
    events.addEventListener(type, message => {
      const data = JSON.parse(message.data);
      clock.heard(data.atMillis);
      handle(data.atMillis, data.event);
      if (type !== 'time') {
        describe();
      }
    });
  }
  events.addEventListener('error', () => {
    byId('leadership').textContent = 'The lab doesn’t answer; trying again …';
    clock.reset();
  });
  events.addEventListener('open', describe);
}

for (const [state, label] of Object.entries(STATES)) {
  const item = document.createElement('li');
  item.className = state;
  item.textContent = label;
  byId('legend').append(item);
}
for (const [mode, words] of Object.entries(MODES)) {
  settings.elements.mode.append(new Option(words, mode));
}
if (matchMedia('(max-width: 800px)').matches) {
  byId('span').value = '30';
}
byId('add-node').addEventListener('click', event => post('api/nodes', event.currentTarget));
byId('restart-server').addEventListener('click', event => post('api/server/restart', event.currentTarget));
settings.addEventListener('submit', event => {
  event.preventDefault();
  const form = new FormData(settings);
  post('api/lab/restart', settings.querySelector('button'), {
    leaseMillis: Number(form.get('leaseMillis')),
    retryMillis: Number(form.get('retryMillis')),
    jobMillis: Number(form.get('jobMillis')),
    mode: form.get('mode'),
  });
});

listen();
setInterval(() => document.hidden || timeline.draw(), FRAME_MILLIS);
