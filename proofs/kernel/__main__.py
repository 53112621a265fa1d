"""``python -m proofs.kernel``: prove the development and rewrite its manifest."""

from proofs.kernel.bound import THEOREMS
from proofs.kernel.development import theorems
from proofs.kernel.manifest import write_manifest

if __name__ == "__main__":
    write_manifest(theorems(tuple(sorted(THEOREMS))))
