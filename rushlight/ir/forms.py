"""Linear forms of integers, and proofs that one is not negative.

A form is a dict from keys of atoms to coefficients; the constant is under None. What
atoms are is up to who makes the forms: axes and quotients of a kernel's indices, symbols
and products of them of a graph's sizes. A form is proved not negative by taking facts,
forms that are not negative, off it until what is left is known not to be.
"""

DEPTH = 6  # facts that one proof takes off, at most


def plus(left, right, factor=1):
    """A form and a multiple of another."""
    result = dict(left)
    for key, count in right.items():
        result[key] = result.get(key, 0) + factor * count
    return {key: count for key, count in result.items() if count}


def scaled(form, factor):
    """A multiple of a form."""
    return plus({}, form, factor)


def is_constant(form):
    """Whether no atom is in a form."""
    return not set(form) - {None}


def divided(form, divisor):
    """``form // divisor`` as a form, and the rest of the form that has yet to be divided.

    Coefficients are divided by themselves: ``(4*i + 9*j) // 4`` is ``i + 2*j + j // 4``.

    Args:
        divisor: an integer above zero.
    """
    whole = {key: count // divisor for key, count in form.items()}
    return scaled(whole, 1), plus(form, whole, -divisor)


def constant_of(form):
    """The form's value if no atom is in it; None where that is not known."""
    return form.get(None, 0) if is_constant(form) else None


class Prover:
    """What is known of atoms, as `proved` asks for it."""

    def facts_of(self, key):
        """Forms with the atom that are not negative."""
        return ()

    def cases_of(self, key):
        """Forms of which the atom is one; none where that is not known."""
        return ()

    def least(self, form):
        """A bound of a form from below; None where there is none."""
        return constant_of(form)

    def proved(self, form, facts=(), depth=DEPTH):
        """Whether a form is known not to be negative.

        Args:
            facts: forms that are not negative, besides what is known of the atoms.
            depth: how many facts are taken off, at most.
        """
        low = self.least(form)
        if low is not None and low >= 0:
            return True
        keys = [key for key, count in form.items() if key is not None and count]
        if not keys or not depth:
            return False
        for key in keys:
            count = form[key]
            for fact in (*facts, *self.facts_of(key)):
                other = fact.get(key, 0)
                if other * count <= 0:
                    continue
                # Integers: more than -1 is enough.
                rest = plus(scaled(form, abs(other)), {None: abs(other) - 1})
                if self.proved(plus(rest, fact, -abs(count)), facts, depth - 1):
                    return True
            cases = self.cases_of(key)
            if cases and all(
                self.proved(
                    plus(form, plus(case, {key: 1}, -1), count), facts, depth - 1
                )
                for case in cases
            ):
                return True
        return False
