"""What a sanitizer build changes: how long tests wait for something that has to happen, and how much of it they do."""

factor = 1  # set once by conftest, before it loads the tests


def scaled(seconds):
    return seconds * factor


def shorter(full, sanitized):
    """The amount of work; a sanitizer build decodes some 40 times slower."""
    return full if factor == 1 else sanitized
