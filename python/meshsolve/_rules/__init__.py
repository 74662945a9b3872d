"""What JAX has to know of the routines: derivatives, batches, refinement."""
