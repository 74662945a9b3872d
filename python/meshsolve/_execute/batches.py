"""The leading axis of operations under ``jax.vmap``."""

from typing import NamedTuple

from jax import lax
from jax.sharding import PartitionSpec


class Batch(NamedTuple):
    """The leading axis that some operands and all results have.

    Attributes:
      operands: for each operand, whether it has the axis; empty without a batch.
      entry: the mesh axes of the batch, as in a PartitionSpec.
    """

    operands: tuple[bool, ...] = ()
    entry: str | tuple[str, ...] | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that the batch is distributed to."""
        return (self.entry,) if isinstance(self.entry, str) else self.entry or ()

    @property
    def name(self) -> tuple[str, ...]:
        """The operands that have the axis, for the name of a program."""
        return ("".join("01"[x] for x in self.operands),) if self.operands else ()

    def on(self, spec: PartitionSpec, operand: int) -> tuple["Batch", PartitionSpec]:
        """The batch with the distribution of an operand that has it and this spec, and the spec of
        one element.
        """
        if not self.operands or not self.operands[operand]:
            return self, spec
        entry, *rest = spec if spec else (None,)
        return self._replace(entry=entry), PartitionSpec(*rest)

    def specs(self, operands, results):
        """Specs with the leading axis, from specs without it."""
        if not self.operands:
            return operands, results
        pairs = zip(operands, self.operands, strict=True)
        given = tuple(PartitionSpec(self.entry, *s) if has else s for s, has in pairs)
        return given, tuple(PartitionSpec(self.entry, *s) for s in results)

    def result(self, spec: PartitionSpec, operand: int | None) -> PartitionSpec:
        """The spec of a result that goes back to where its operand of that spec was."""
        if not self.operands or operand is None or self.operands[operand]:
            return spec
        return PartitionSpec(self.entry, *spec)

    def terms(self, operands, results):
        """The terms of a sharding rule with the letter of the batch."""
        if not self.operands:
            return operands, results
        pairs = zip(operands, self.operands, strict=True)
        given = [f"z {term}".strip() if has else term for term, has in pairs]
        return given, [f"z {term}".strip() for term in results]

    def each(self, function):
        """``function`` of one element for the whole batch, one after another."""
        if not self.operands:
            return function

        def run(*operands):
            def one(mapped):
                rest = iter(mapped)
                pairs = zip(operands, self.operands, strict=True)
                return function(*(next(rest) if has else x for x, has in pairs))

            return lax.map(one, [x for x, has in zip(operands, self.operands, strict=True) if has])

        return run


ONE = Batch()
