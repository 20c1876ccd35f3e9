# SPDX-License-Identifier: BSD-2-Clause
"""Options of commands, as keywords."""


def is_given(value):
    return value is not False and value is not None


def options_words(options):
    """Makes options of keywords: loss="1%" is --loss 1%, cm=True is --cm, and a list repeats its option."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif is_given(value):
            values = value if isinstance(value, (list, tuple)) else [value]
            words += [word for one in values for word in (option, str(one))]
    return words
