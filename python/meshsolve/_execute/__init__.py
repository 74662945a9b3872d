"""How a request reaches the devices: eagerly, with Explicit axes, or by the partitioner."""
