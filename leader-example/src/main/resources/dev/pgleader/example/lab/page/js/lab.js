// Reads the lab's log, and passes each event on to those parts of the page that show it.

import {post, warn} from './actions.js';
import * as clock from './clock.js';
import {Failovers} from './failovers.js';
import {Ledger} from './ledger.js';
import * as help from './help.js';
import {Nodes} from './nodes.js';
import {Runs} from './runs.js';
import {STATES} from './states.js';
import {Story} from './story.js';
import {Timeline} from './timeline.js';

const FRAME_MILLIS = 250;
const CLOCK_MILLIS = 100;

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
const runs = new Runs(byId('runs'), byId('run-count'));
const story = new Story(byId('story'));
const settings = byId('settings');

let leaders = new Map();
let holder = {};
let lastFailover;
/** Since when nobody leads; undefined while somebody does, and before anything is known. */
let leaderlessSince;
let mostNodes = Infinity;

const handlers = {
  time() {},
  lab(atMillis, lab) {
    for (const part of [timeline, failovers, nodes, ledger, runs, story]) {
      part.reset();
    }
    leaders = new Map();
    lastFailover = undefined;
    leaderlessSince = atMillis;
    mostNodes = lab.mostNodes;
    for (const name of ['leaseMillis', 'retryMillis', 'jobMillis', 'mode']) {
      settings.elements[name].value = lab[name];
    }
    limitRetry();
  },
  node(atMillis, node) {
    timeline.node(atMillis, node);
    nodes.node(node);
    story.node(atMillis, node);
    if (node.leads && !['PAUSED', 'SUSPENDED', 'DEAD'].includes(node.state)) {
      leaders.set(node.node, node.term);
      leaderlessSince = undefined;
    } else if (leaders.delete(node.node) && leaders.size === 0) {
      leaderlessSince = atMillis;
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
  run(atMillis, run) {
    runs.run(atMillis, run);
  },
  note(atMillis, note) {
    story.note(atMillis, note);
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
  const leads = leaders.size > 0;
  byId('leadership').className = leads || leaderlessSince === undefined ? '' : 'leaderless';
  timeline.leaderless(leaderlessSince);
  setText('who', leads ? [...leaders].map(([node, term]) => `${node} leads, term ${term}`).join('; ') : 'Nobody leads');
  tick();
  const server = !holder.reachable ? 'PostgreSQL is down' : holder.node
    ? `PostgreSQL shows: ${holder.node} holds the lock` : 'PostgreSQL shows: the lock is free';
  setText('server', lastFailover ? `${server} · last gap ${clock.duration(lastFailover.gapMillis)}` : server);
}

/** How long nobody has led by now. */
function tick() {
  setText('gap-clock', leaderlessSince === undefined
    ? '' : `: ${(Math.max(0, clock.now() - leaderlessSince) / 1000).toFixed(1)} s`);
}

function setText(id, text) {
  if (byId(id).textContent !== text) {
    byId(id).textContent = text;
  }
}

/** The server takes no retry interval that is longer than the lease. */
function limitRetry() {
  settings.elements.retryMillis.max = settings.elements.leaseMillis.value;
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
    leaderlessSince = undefined;
    byId('leadership').className = '';
    setText('who', 'The lab doesn’t answer; trying again …');
    setText('gap-clock', '');
    setText('server', '');
    clock.reset();
  });
  events.addEventListener('open', describe);
}

for (const [name, words] of [
  ...Object.entries(STATES).map(([state, {words}]) => [state, words]),
  ['no-leader', 'nobody leads'],
  ['deed', 'something that you did'],
]) {
  const item = document.createElement('li');
  item.className = name;
  item.textContent = words;
  byId('legend').append(item);
}
for (const [mode, words] of Object.entries(MODES)) {
  settings.elements.mode.append(new Option(words, mode));
}
if (matchMedia('(max-width: 800px)').matches) {
  byId('span').value = '30';
}
for (const button of document.querySelectorAll('[data-path]')) {
  button.addEventListener('click', () => post(button.dataset.path, button));
}
settings.elements.leaseMillis.addEventListener('input', limitRetry);
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
help.load(byId('help'));
setInterval(tick, CLOCK_MILLIS);
setInterval(() => document.hidden || timeline.draw(), FRAME_MILLIS);
