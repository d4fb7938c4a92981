"""The coordinator's brain: state and a pure reducer, one module per concern (design §5).

`reduce(state, input) -> (state, effects)`. No clock, socket, thread or id generator lives here: inputs carry their
time and a fresh seed for ids, effects are data that the coordinator process carries out.
"""
