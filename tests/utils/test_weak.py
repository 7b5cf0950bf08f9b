"""Weak references and dictionaries by identity."""

import copy
import gc

import pytest

import triten as tt
from triten.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef, WeakTensorKeyDictionary


def test_keys_are_found_by_identity():
    x, twin = tt.ones(2), tt.ones(2)
    found = WeakTensorKeyDictionary({x: 1})
    assert x in found and twin not in found and 3 not in found
    found[twin] = 2
    assert found[x] == 1 and found[twin] == 2 and len(found) == 2
    assert found.get(tt.ones(2), "none") == "none"
    assert {id(key) for key in found} == {id(x), id(twin)} == {id(each()) for each in found.keyrefs()}
    assert found.pop(x) == 1 and next(iter(found.items()))[0] is twin
    with pytest.raises(KeyError):
        del found[x]


def test_an_entry_goes_with_its_key():
    keys = [tt.ones(1) for _ in range(4)]
    found = WeakIdKeyDictionary((key, number) for number, key in enumerate(keys))
    seen = []
    for key in found:
        seen.append(found[key])
        keys.clear()
        del key
    gc.collect()
    assert 0 in seen and len(found) == 0


def test_values_do_not_go_while_their_key_lives():
    x = tt.ones(2)
    found = WeakIdKeyDictionary()
    found[x] = value = [1]
    found[x] = value  # the same key again, whose first reference stays
    gc.collect()
    assert found[x] is value and len(found) == 1


def test_copies_and_unions():
    x, y = tt.ones(1), tt.ones(1)
    found = WeakIdKeyDictionary({x: [1]})
    shallow, deep = copy.copy(found), copy.deepcopy(found)
    assert shallow[x] is found[x] and deep[x] == [1] and deep[x] is not found[x]
    assert shallow == found and (found | {y: [2]}) != found
    assert (found | {y: 2})[y] == 2 and ({y: 2, x: 0} | found)[x] == [1]
    found |= {y: 3}
    assert len(found) == 2


def test_references_equal_those_of_the_same_object():
    x, y = tt.ones(1), tt.ones(1)
    assert WeakIdRef(x) == WeakIdRef(x) != WeakIdRef(y)
    assert hash(WeakIdRef(x)) == hash(WeakIdRef(x))
    called = []
    dead = WeakIdRef(y, called.append)
    del y
    assert dead() is None and called == [dead] and dead == dead and dead != WeakIdRef(x)


def test_a_weak_tensor():
    x = tt.ones(1)
    found = TensorWeakRef(x)
    assert found() is x
    del x
    assert found() is None
    with pytest.raises(AssertionError, match="expected a Tensor"):
        TensorWeakRef(3)


def test_an_update_that_fails_changes_nothing():
    x, y = tt.ones(1), tt.ones(1)

    class Failing:
        def keys(self):
            return iter([x, y])

        def __getitem__(self, key):
            if key is y:
                raise LookupError("no value")
            return 1

    entries = WeakTensorKeyDictionary()
    with pytest.raises(LookupError, match="no value"):
        entries.update(Failing())
    assert len(entries) == 0
    entries.update({x: 1})
    entries.update([(x, 2), (y, 3)])
    assert entries[x] == 2 and entries[y] == 3
