"""What the tests against a real cluster share: a namespace each, a class, and words for waiting."""

import uuid

import pytest

from kit import cuddy, dump, kubectl, kubectl_json


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A user's home of its own, so that keys and state of the person at the machine are left alone."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def user(home):
    """The environment of a user with a key and a default class that trusts it."""
    env = {"XDG_CONFIG_HOME": str(home), "HOME": str(home)}
    cuddy("key", "create", env=env)
    # `class init` keeps what others set, the demo's short idle time among it; tests start from the shipped defaults.
    kubectl("delete", "environmentclass", "default", "--ignore-not-found")
    cuddy("class", "init", "--force", "--image", "cuddy.test/runtime:dev", "--image-pull-policy", "IfNotPresent", env=env)
    return env


@pytest.fixture
def namespace(request):
    """A namespace under Pod Security "restricted", removed afterwards; a failure prints what was in it."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    yield name
    if request.node.stash.get(FAILED, False):
        dump(name)
    kubectl("delete", "namespace", name, "--wait=false")


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report
