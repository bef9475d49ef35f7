// The states of a lane: what they are called, and how they are drawn.

/** A colour of the style sheet, and the pattern on it, so that nobody has to tell states by colour alone. */
export const STATES = {
  'leader': {words: 'leads', colour: 'leader'},
  'taking-over': {words: 'has the lock, waits before it leads', colour: 'taking-over'},
  'follower': {words: 'waits for the lock', colour: 'follower'},
  'connecting': {words: 'no session', colour: 'connecting'},
  'paused': {words: 'paused', colour: 'paused', pattern: 'bars'},
  'cut-off': {words: 'cut off', colour: 'cut-off', pattern: 'slashes'},
  'cut-off-leader': {words: 'cut off, still leads', colour: 'leader', pattern: 'slashes'},
  'suspended': {words: 'suspended: paused and cut off', colour: 'paused', pattern: 'slashes'},
  'dead': {words: 'dead', colour: 'dead'},
};

/** Why a term ended, as the library names it, in plain words. */
export const REASONS = {
  RESIGNED: 'it gave up, as it was told',
  CLOSED: 'it was told to end',
  SESSION_LOST: 'its session had ended',
  CHECK_TIMEOUT: 'PostgreSQL didn’t answer in time',
  LEASE_EXPIRED: 'its lease was over',
  LOCK_LOST: 'its session no longer held the lock',
};

/** Which of the states a node is in. */
export function stateOf(node) {
  const state = node.state.toLowerCase().replace('_', '-');
  if (state === 'starting') {
    return 'connecting';
  }
  return state === 'cut-off' && node.leads ? 'cut-off-leader' : state;
}

/** The words for a node's state. */
export function labelOf(node) {
  switch (node.state) {
    case 'STARTING': return 'starting';
    case 'LEADER': return `leader, term ${node.term}`;
    case 'FOLLOWER': return 'follower';
    case 'SUSPENDED': return 'suspended';
    default: return STATES[stateOf(node)].words;
  }
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** What a bar of the state is filled with. */
export function fill(state) {
  const {colour: name, pattern} = STATES[state];
  if (!pattern) {
    return colour(name);
  }
  const tile = document.createElement('canvas');
  tile.width = tile.height = 10;
  const ink = tile.getContext('2d');
  ink.fillStyle = colour(name);
  ink.fillRect(0, 0, 10, 10);
  ink.strokeStyle = colour(pattern === 'slashes' ? 'cut-off' : 'surface');
  ink.lineWidth = 3;
  for (const x of pattern === 'slashes' ? [-10, 0, 10] : [5]) {
    ink.beginPath();
    ink.moveTo(x, 10);
    ink.lineTo(pattern === 'slashes' ? x + 10 : x, 0);
    ink.stroke();
  }
  return ink.createPattern(tile, 'repeat');
}
