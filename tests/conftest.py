"""For all tests."""


def pytest_collection_modifyitems(items):
    """What takes longest begins first, so that no worker ends long after the others."""
    items.sort(key=lambda item: "readme" not in item.name)
