"""A local environment per test file, and a fresh one for tests that break theirs."""

import pytest

from local_kit import Local


def an_environment(factory, name="dev"):
    place = Local(factory.mktemp("place"), name)
    return place.up()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """An environment that the tests of one file share."""
    place = an_environment(tmp_path_factory)
    yield place
    place.end()


@pytest.fixture
def fresh(tmp_path_factory):
    """An environment of the test's own, which it may break."""
    place = an_environment(tmp_path_factory)
    yield place
    place.end()
