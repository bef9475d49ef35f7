// The time of the lab: milliseconds since its supervisor started, as the supervisor's log has it.

let offset = -Infinity;

/** An event has just come that happened at this time, or a little earlier. */
export function heard(atMillis) {
  offset = Math.max(offset, atMillis - performance.now());
}

export function reset() {
  offset = -Infinity;
}

export function now() {
  return Number.isFinite(offset) ? performance.now() + offset : 0;
}

/** 83.4 s as 1:23.4 */
export function text(atMillis) {
  const minutes = Math.floor(atMillis / 60_000);
  return `${minutes}:${((atMillis % 60_000) / 1000).toFixed(1).padStart(4, '0')}`;
}

/** A duration for people. */
export function duration(millis) {
  return millis < 1000 ? `${Math.round(millis)} ms` : `${(millis / 1000).toFixed(1)} s`;
}
