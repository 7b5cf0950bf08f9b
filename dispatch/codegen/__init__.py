"""The code generator: from `native_functions/*.yaml` and `derivatives.yaml` to `generated/`.

`python -m triten.dispatch.codegen` writes, ``--check`` compares. The YAML is parsed once into the frozen
dataclasses of `model.py`; each generator is a pure function from model to text. Nothing imports this folder
at run time. `python -m triten.dispatch.codegen.check_docs` says which operators lack documentation.
"""
