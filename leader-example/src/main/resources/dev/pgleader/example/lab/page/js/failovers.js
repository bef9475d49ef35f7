// For how long nobody led: each failover counted in the class of its duration, one colour per cause.

import * as clock from './clock.js';
import {colour} from './states.js';

const CLASSES = [
  {label: '< 20 ms', below: 20},
  {label: '< 50', below: 50},
  {label: '< 100', below: 100},
  {label: '< 250', below: 250},
  {label: '< 500', below: 500},
  {label: '< 1 s', below: 1000},
  {label: '< 2', below: 2000},
  {label: '< 5', below: 5000},
  {label: '< 10', below: 10_000},
  {label: 'more', below: Infinity},
];
/** The colour of each cause; it's that of the state which the cause brings about, where there is one. */
const COLOURS = {
  'kill -9': 'fault',
  'pause': 'paused',
  'cut network': 'cut-off',
  'terminate session': 'accent',
  'resign': 'leader',
  'restart': 'taking-over',
  'restart PostgreSQL': 'dead',
};

export class Failovers {
  #gaps = [];
  /** Cause by cause, how many gaps there are in each class. */
  #counts = new Map();
  #chart;
  #canvas;
  #count;

  constructor(canvas, count) {
    this.#canvas = canvas;
    this.#count = count;
    this.#chart = new Chart(canvas, {
      type: 'bar',
      data: {labels: CLASSES.map(entry => entry.label), datasets: []},
      options: {
        animation: false,
        maintainAspectRatio: false,
        scales: {
          x: {stacked: true, grid: {display: false}, ticks: {}},
          y: {stacked: true, beginAtZero: true, grid: {}, ticks: {precision: 0}, suggestedMax: 4},
        },
        plugins: {legend: {position: 'bottom', labels: {boxWidth: 12}}},
      },
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
    this.#draw();
  }

  reset() {
    this.#gaps = [];
    this.#counts.clear();
    this.#draw();
  }

  add(failover) {
    this.#gaps.push(failover.gapMillis);
    const counts = this.#counts.get(failover.cause) ?? CLASSES.map(() => 0);
    counts[CLASSES.findIndex(entry => failover.gapMillis < entry.below)]++;
    this.#counts.set(failover.cause, counts);
    this.#draw();
  }

  #draw() {
    // New ones: the chart keeps the colours of a dataset that it has drawn.
    this.#chart.data.datasets = [...this.#counts].map(([label, data]) => ({
      label,
      data,
      backgroundColor: colour(COLOURS[label] ?? 'follower'),
    }));
    const {scales, plugins} = this.#chart.options;
    scales.x.ticks.color = scales.y.ticks.color = plugins.legend.labels.color = colour('text');
    scales.y.grid.color = colour('grid');
    this.#chart.update('none');
    this.#count.textContent = this.#summary();
    this.#canvas.setAttribute('aria-label', `Failovers by duration. ${this.#summary()}`);
  }

  #summary() {
    if (this.#gaps.length === 0) {
      return 'No failover yet.';
    }
    const sorted = [...this.#gaps].sort((a, b) => a - b);
    const median = sorted[Math.floor((sorted.length - 1) / 2)];
    return `${sorted.length} failover${sorted.length === 1 ? '' : 's'}: median ${clock.duration(median)},`
      + ` longest ${clock.duration(sorted.at(-1))}`;
  }
}
