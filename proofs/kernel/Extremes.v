(* T36: expected maxima of G iid loads, by integrals of polynomials with rational coefficients.

   Exponential, mean 1: E max = int_0^oo (1 - (1 - e^-x)^G) dx; with u = 1 - e^-x it is
   int_0^1 (1 - u^G)/(1 - u) du, and the quotient is 1 + u + .. + u^(G-1). Uniform on [0, 1]: the
   largest of G has density G u^(G-1), so E max = int_0^1 u * G u^(G-1) du. *)
Require Import List QArith Lia Setoid.
Import ListNotations.
Open Scope Q_scope.

(* Coefficients, the constant first. *)
Definition poly := list Q.

Fixpoint eval (p : poly) (u : Q) : Q :=
  match p with
  | [] => 0
  | a :: q => a + u * eval q u
  end.

Fixpoint power (u : Q) (n : nat) : Q :=
  match n with
  | O => 1
  | S k => u * power u k
  end.

Definition of_nat (n : nat) : Q := inject_Z (Z.of_nat n).

(* The k-th coefficient becomes the (k+1)-th, over k + 1. *)
Fixpoint raised (k : nat) (p : poly) : poly :=
  match p with
  | [] => []
  | a :: q => a / of_nat (S k) :: raised (S k) q
  end.

Fixpoint lowered (k : nat) (p : poly) : poly :=
  match p with
  | [] => []
  | a :: q => of_nat (S k) * a :: lowered (S k) q
  end.

Definition primitive (p : poly) : poly := 0 :: raised 0 p.

Definition derivative (p : poly) : poly :=
  match p with
  | [] => []
  | _ :: q => lowered 0 q
  end.

(* Over [0, 1]. *)
Definition integral (p : poly) : Q := eval (primitive p) 1 - eval (primitive p) 0.

Fixpoint harmonic (n : nat) : Q :=
  match n with
  | O => 0
  | S k => harmonic k + 1 / of_nat (S k)
  end.

Lemma of_nat_positive n : 0 < of_nat (S n).
Proof. unfold of_nat, Qlt, inject_Z. simpl. lia. Qed.

Lemma of_nat_nonzero n : ~ of_nat (S n) == 0.
Proof. intro E. pose proof (of_nat_positive n) as P. rewrite E in P. discriminate P. Qed.

Lemma of_nat_next n : of_nat (S n) == of_nat n + 1.
Proof. unfold of_nat. rewrite Nat2Z.inj_succ. unfold Z.succ. rewrite inject_Z_plus. reflexivity. Qed.

Lemma lowered_raised p : forall k, Forall2 Qeq (lowered k (raised k p)) p.
Proof.
  induction p as [| a p IH]; intro k; simpl; constructor; auto.
  field. apply of_nat_nonzero.
Qed.

(* What is called an integral is one: the primitive's derivative is the polynomial. *)
Theorem primitive_is_one p : Forall2 Qeq (derivative (primitive p)) p.
Proof. apply lowered_raised. Qed.

Lemma integral_raised p : integral p == eval (raised 0 p) 1.
Proof. unfold integral, primitive. simpl. ring. Qed.

(* The tail over 1 - u is the sum of the powers below G. *)
Theorem tail_is_geometric n u : (1 - u) * eval (repeat 1 n) u == 1 - power u n.
Proof.
  induction n as [| n IH]; simpl; [ring |].
  setoid_replace ((1 - u) * (1 + u * eval (repeat 1 n) u))
    with (1 - u + u * ((1 - u) * eval (repeat 1 n) u)) by ring.
  rewrite IH. ring.
Qed.

Lemma ones_sum n : forall k, eval (raised k (repeat 1 n)) 1 + harmonic k == harmonic (k + n).
Proof.
  induction n as [| n IH]; intro k; simpl; [rewrite Nat.add_0_r; ring |].
  replace (k + S n)%nat with (S k + n)%nat by lia. rewrite <- (IH (S k)). simpl. ring.
Qed.

(* Exponential: E max = H_G. *)
Theorem exponential_maximum n : integral (repeat 1 n) == harmonic n.
Proof. rewrite integral_raised. pose proof (ones_sum n 0) as E. simpl in E. rewrite <- E. ring. Qed.

(* u * G u^(G-1) = G u^G. *)
Definition weighted_density (n : nat) : poly := repeat 0 n ++ [of_nat n].

Theorem weighted_density_is n u : eval (weighted_density n) u == of_nat n * power u n.
Proof.
  unfold weighted_density. generalize (of_nat n) as c. intro c.
  induction n as [| n IH]; simpl; [ring |]. rewrite IH. ring.
Qed.

Lemma last_term c n : forall k,
  eval (raised k (repeat 0 n ++ [c])) 1 == c / of_nat (S (k + n)).
Proof.
  induction n as [| n IH]; intro k; simpl.
  - rewrite Nat.add_0_r. ring.
  - rewrite IH. replace (k + S n)%nat with (S k + n)%nat by lia. field.
    split; apply of_nat_nonzero.
Qed.

(* Uniform: E max = G/(G+1). *)
Theorem uniform_maximum n : integral (weighted_density n) == of_nat n / of_nat (S n).
Proof. rewrite integral_raised. unfold weighted_density. apply (last_term (of_nat n) n 0). Qed.

(* Idle share of a barrier: 1 - mean/E max, means 1 and 1/2. *)
Definition idle (mean largest : Q) : Q := 1 - mean / largest.

Theorem exponential_idle n :
  idle 1 (integral (repeat 1 (S n))) == 1 - 1 / harmonic (S n).
Proof. unfold idle. rewrite exponential_maximum. reflexivity. Qed.

Theorem uniform_idle n :
  idle (1 # 2) (integral (weighted_density (S n)))
    == (of_nat (S n) - 1) / (2 * of_nat (S n)).
Proof.
  unfold idle. rewrite uniform_maximum, (of_nat_next (S n)). field.
  pose proof (of_nat_positive n) as P. split; [apply of_nat_nonzero |].
  intro E. assert (R : 0 < of_nat (S n) + 1) by (apply (Qlt_le_trans _ (of_nat (S n))); [exact P |];
    rewrite <- (Qplus_0_r (of_nat (S n))) at 1; apply Qplus_le_r; discriminate).
  rewrite E in R. discriminate R.
Qed.
