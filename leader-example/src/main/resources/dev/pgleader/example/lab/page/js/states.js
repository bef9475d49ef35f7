// The states of a lane: what they are called, and which colour of the style sheet they have.

export const STATES = {
  'leader': 'leader',
  'taking-over': 'holds the lock, waits out the lease',
  'follower': 'follower',
  'connecting': 'no session',
  'paused': 'paused',
  'cut-off': 'cut off',
  'cut-off-leader': 'cut off, trusts its lease',
  'dead': 'dead',
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
  if (node.state === 'STARTING') {
    return 'starting';
  }
  const label = STATES[stateOf(node)];
  return node.state === 'LEADER' ? `${label}, term ${node.term}` : label;
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
