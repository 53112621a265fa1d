"""Hypothesis profiles, in one place: dev (default), ci and nightly, chosen by HYPOTHESIS_PROFILE.

No profile has a deadline: a busy machine is no defect. ci draws the same examples every time, so
that a red build is the change's doing; nightly draws new ones, and many.
"""

import os

from hypothesis import settings

PROFILES = {
    "dev": settings(deadline=None, max_examples=100, stateful_step_count=30),
    "ci": settings(
        deadline=None,
        max_examples=100,
        stateful_step_count=50,
        derandomize=True,
        database=None,
        print_blob=True,
    ),
    "nightly": settings(deadline=None, max_examples=5000, stateful_step_count=100, print_blob=True),
}


def load_profile() -> str:
    """Register the profiles, load the wanted one and return its name."""
    wanted = os.environ.get("HYPOTHESIS_PROFILE", "dev")
    if wanted not in PROFILES:
        message = f"HYPOTHESIS_PROFILE: expected one of {', '.join(PROFILES)}, got {wanted!r}"
        raise ValueError(message)
    for name, profile in PROFILES.items():
        settings.register_profile(name, profile)
    settings.load_profile(wanted)
    return wanted
