// The swim lanes: one bar chart that lies on its side, with a bar for each state that a lane was in.

import * as clock from './clock.js';
import {STATES, colour, fill, labelOf, stateOf} from './states.js';

const SERVER = 'pg_locks';
const LANE_HEIGHT = 34;

/** The states that are told on their bars as well, and in which colour. */
const ON_BAR = {
  'leader': 'on-leader',
  'cut-off-leader': 'on-leader',
  'paused': 'on-paused',
  'suspended': 'on-paused',
  'cut-off': 'on-cut-off',
  'dead': 'surface',
};

/** A bar that is narrower than this has no room for words. */
const LABEL_PIXELS = 48;

export class Timeline {
  /** Lane by lane, the states it was in: {state, label, from, to}, where the last one has no end. */
  #lanes = new Map();
  #faults = [];
  #failovers = [];
  /** Since when nobody leads; undefined while somebody does. */
  #leaderlessSince;
  #chart;
  #canvas;
  #span;

  constructor(canvas, span) {
    this.#canvas = canvas;
    this.#span = span;
    this.#chart = new Chart(canvas, this.#configuration());
    this.repaint();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      this.repaint();
      this.draw();
    });
  }

  reset() {
    this.#lanes = new Map([[SERVER, []]]);
    this.#faults = [];
    this.#failovers = [];
  }

  node(atMillis, node) {
    this.#enter(node.node, atMillis, stateOf(node), labelOf(node));
  }

  holder(atMillis, holder) {
    if (holder.node) {
      this.#enter(SERVER, atMillis, 'leader', holder.node);
    } else if (holder.reachable) {
      this.#enter(SERVER, atMillis, 'follower', 'free');
    } else {
      this.#enter(SERVER, atMillis, 'dead', 'server down');
    }
  }

  fault(atMillis, fault) {
    this.#faults.push({at: atMillis, target: fault.target, label: fault.label});
  }

  failover(failover) {
    this.#failovers.push(failover);
  }

  leaderless(sinceMillis) {
    this.#leaderlessSince = sinceMillis;
  }

  /** Moves on to the present. */
  draw() {
    const now = clock.now();
    const from = now - Number(this.#span.value) * 1000;
    const lanes = [...this.#lanes.keys()];
    this.#canvas.parentElement.style.height = `${lanes.length * LANE_HEIGHT + 60}px`;
    this.#chart.options.scales.x.min = from;
    this.#chart.options.scales.x.max = now;
    this.#chart.data.labels = lanes;
    this.#chart.data.datasets.forEach(dataset => {
      dataset.data = [];
    });
    this.#forget(from);
    for (const [lane, entries] of this.#lanes) {
      for (const entry of entries) {
        this.#chart.data.datasets.find(dataset => dataset.state === entry.state).data.push({
          x: [Math.max(entry.from, from), entry.to ?? now],
          y: lane,
          label: entry.label,
        });
      }
    }
    this.#chart.options.plugins.annotation.annotations = this.#annotations(from, now);
    this.#chart.update('none');
    this.#describe();
  }

  /** Takes the colours of the present colour scheme. */
  repaint() {
    const {scales, plugins} = this.#chart.options;
    for (const scale of [scales.x, scales.y]) {
      scale.ticks.color = colour('text');
      scale.grid.color = colour('grid');
    }
    // New ones: the chart keeps the colours of a dataset that it has drawn.
    this.#chart.data.datasets = Object.keys(STATES).map(state => ({
      state,
      data: [],
      backgroundColor: fill(state),
      grouped: false,
      barPercentage: 0.7,
      categoryPercentage: 1,
      minBarLength: 2,
    }));
    plugins.tooltip.backgroundColor = colour('dead');
    plugins.tooltip.titleColor = plugins.tooltip.bodyColor = colour('surface');
  }

  #enter(lane, atMillis, state, label) {
    const entries = this.#lanes.get(lane) ?? [];
    const last = entries.at(-1);
    if (last?.state === state && last.label === label) {
      return;
    }
    if (last) {
      last.to = atMillis;
    }
    entries.push({state, label, from: atMillis});
    this.#lanes.set(lane, entries);
  }

  /** What has left the longest span that can be shown isn't needed any more. */
  #forget(from) {
    const longest = Math.min(from, clock.now() - 600_000);
    for (const [lane, entries] of this.#lanes) {
      this.#lanes.set(lane, entries.filter(entry => entry.to === undefined || entry.to > longest));
    }
    this.#faults = this.#faults.filter(fault => fault.at > longest);
    this.#failovers = this.#failovers.filter(failover => failover.fromMillis + failover.gapMillis > longest);
  }

  #annotations(from, now) {
    const annotations = {};
    const wide = (now - from) * LABEL_PIXELS / this.#chart.chartArea.width;
    for (const [lane, entries] of this.#lanes) {
      entries.filter(entry => ON_BAR[entry.state]).forEach((entry, i) => {
        const [start, end] = [Math.max(entry.from, from), entry.to ?? now];
        // Where the label of a fault is, there is no room for another one.
        const covered = this.#faults.some(fault =>
          fault.target === lane && Math.abs(fault.at - (start + end) / 2) < 1.5 * wide);
        if (end - start > wide && !covered) {
          annotations[`term-${lane}-${i}`] = {
            type: 'label',
            xValue: (start + end) / 2,
            yValue: lane,
            content: entry.label.replace('leader, ', ''),
            color: colour(ON_BAR[entry.state]),
            backgroundColor: colour(STATES[entry.state].colour),
            font: {size: 11},
            padding: 2,
          };
        }
      });
    }
    if (this.#leaderlessSince !== undefined) {
      annotations.leaderless = {
        type: 'box',
        xMin: Math.max(from, this.#leaderlessSince),
        xMax: now,
        backgroundColor: `${colour('no-leader')}55`,
        borderWidth: 0,
        drawTime: 'beforeDatasetsDraw',
      };
      annotations.leaderlessLabel = {
        type: 'label',
        xValue: now,
        yValue: SERVER,
        yAdjust: -LANE_HEIGHT / 2 - 6,
        position: {x: 'end', y: 'center'},
        content: clock.duration(now - this.#leaderlessSince),
        color: colour('no-leader'),
        font: {size: 11, weight: 'bold'},
        padding: 1,
      };
    }
    const gaps = this.#failovers.filter(failover => failover.fromMillis + failover.gapMillis > from);
    gaps.forEach((failover, i) => {
      const to = failover.fromMillis + failover.gapMillis;
      const next = gaps[i + 1];
      annotations[`gap-${i}`] = {
        type: 'box',
        xMin: Math.max(from, failover.fromMillis),
        xMax: to,
        backgroundColor: `${colour('no-leader')}33`,
        borderWidth: 0,
        drawTime: 'beforeDatasetsDraw',
      };
      annotations[`gap-label-${i}`] = {
        type: 'label',
        xValue: Math.max(from, to),
        yValue: SERVER,
        yAdjust: -LANE_HEIGHT / 2 - 6,
        position: {x: now - to < wide ? 'end' : 'start', y: 'center'},
        display: next ? next.fromMillis + next.gapMillis - to > wide
          : this.#leaderlessSince === undefined || now - to > 2 * wide,
        content: clock.duration(failover.gapMillis),
        color: colour('no-leader'),
        font: {size: 11, weight: 'bold'},
        padding: 1,
      };
    });
    const faults = this.#faults.filter(fault => fault.at > from && fault.at <= now);
    faults.forEach((fault, i) => {
      const next = faults.find(other => other.target === fault.target && other.at > fault.at);
      const atTheEdge = now - fault.at < 1.5 * wide;
      const row = [...this.#lanes.keys()].indexOf(fault.target);
      annotations[`fault-${i}`] = {
        type: 'line',
        xMin: fault.at,
        xMax: fault.at,
        // In the node's own lane; what is done to the server concerns all of them.
        ...(row < 0 ? {} : {yMin: row - 0.5, yMax: row + 0.5}),
        borderColor: colour('text'),
        borderWidth: 2,
      };
      annotations[`fault-label-${i}`] = {
        type: 'label',
        xValue: fault.at,
        yValue: row < 0 ? SERVER : fault.target,
        position: {x: atTheEdge ? 'end' : 'start', y: 'center'},
        // A label that the next one would cover isn't shown; its mark is.
        display: !next || next.at - fault.at > wide,
        content: fault.label,
        color: colour('text'),
        backgroundColor: `${colour('surface')}dd`,
        font: {size: 11},
        padding: 2,
        xAdjust: atTheEdge ? -2 : 2,
      };
    });
    return annotations;
  }

  #describe() {
    const lanes = [...this.#lanes].map(([lane, entries]) => `${lane}: ${entries.at(-1)?.label ?? 'nothing yet'}`);
    this.#canvas.setAttribute('aria-label', `Timeline. Now ${lanes.join('; ')}`);
  }

  #configuration() {
    return {
      type: 'bar',
      data: {labels: [], datasets: []},
      options: {
        indexAxis: 'y',
        animation: false,
        maintainAspectRatio: false,
        layout: {padding: {top: 8, right: 4}},
        scales: {
          x: {
            type: 'linear',
            grid: {},
            ticks: {includeBounds: false, maxRotation: 0, autoSkipPadding: 20, callback: value => (value < 0 ? '' : clock.text(value).replace(/\.\d$/, ''))},
          },
          y: {grid: {display: false}, ticks: {autoSkip: false, font: {size: 12}}},
        },
        plugins: {
          legend: {display: false},
          annotation: {clip: false, annotations: {}},
          tooltip: {
            callbacks: {
              title: items => items[0]?.raw.y,
              label: ({raw}) => `${raw.label}, ${clock.duration(raw.x[1] - raw.x[0])}`,
            },
          },
        },
      },
    };
  }
}
