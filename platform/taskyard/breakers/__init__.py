"""Circuit breakers around what tasks call: one state for the whole fleet, on Redis or Valkey."""
