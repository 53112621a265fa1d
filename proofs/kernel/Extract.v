(* T29: the proved tick as an OCaml program, for comparing the product with it.

   nat and Z become OCaml's 63-bit int, so the program is the proved one only while every score
   stays below 2^62; oracle.py draws its cases from within that. *)
From Kernel Require Import Tick BalanceRoute.
Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt.
Extraction "extracted.ml" tick balance_route.
