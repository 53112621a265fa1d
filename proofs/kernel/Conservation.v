(* T17: the loads of all steps and replicas sum to the work of the requests, for every sticky
   schedule; so total imbalance is G times total barrier time minus a constant. *)
Require Import ZArith Lia List Arith Bool.
From Kernel Require Import Imbalance.
Import ListNotations.
Open Scope Z_scope.

Record request := { start : nat; steps : nat; prompt : Z; replica : nat }.

Fixpoint sum (n : nat) (f : nat -> Z) : Z :=
  match n with
  | O => 0
  | S k => sum k f + f k
  end.

(* KV tokens of r at absolute step k: prompt plus age while it runs. *)
Definition weight (r : request) (k : nat) : Z :=
  if ((start r <=? k) && (k <? start r + steps r))%nat
  then prompt r + Z.of_nat (k - start r)
  else 0.

Definition load (rs : list request) (k g : nat) : Z :=
  total (map (fun r => if (replica r =? g)%nat then weight r k else 0) rs).

Definition loads (rs : list request) (G k : nat) : list Z := map (load rs k) (seq 0 G).

(* o s + o (o - 1) / 2 *)
Definition work (r : request) : Z :=
  Z.of_nat (steps r) * prompt r + Z.of_nat (steps r) * (Z.of_nat (steps r) - 1) / 2.

Lemma sum_ext n f g : (forall k, (k < n)%nat -> f k = g k) -> sum n f = sum n g.
Proof. induction n; simpl; intro H; trivial. rewrite IHn, H; auto. Qed.

Lemma sum_add n f g : sum n (fun k => f k + g k) = sum n f + sum n g.
Proof. induction n; simpl; lia. Qed.

Lemma sum_zero n : sum n (fun _ => 0) = 0.
Proof. induction n; simpl; lia. Qed.

Lemma sum_one G g v : (g < G)%nat -> sum G (fun q => if (g =? q)%nat then v else 0) = v.
Proof.
  induction G as [| G IH]; intro H; [lia |]. simpl sum. destruct (Nat.eqb_spec g G) as [-> | N].
  - rewrite (sum_ext _ _ (fun _ => 0)); [rewrite sum_zero; lia |].
    intros k K. destruct (Nat.eqb_spec G k); lia.
  - rewrite IH by lia. lia.
Qed.

Lemma total_seq f n : total (map f (seq 0 n)) = sum n f.
Proof.
  induction n as [| n IH]; trivial. rewrite seq_S, map_app. simpl.
  rewrite <- IH. generalize (map f (seq 0 n)). intro l. induction l; simpl; lia.
Qed.

Lemma weight_until r n :
  sum n (weight r)
  = sum (Nat.min (n - start r) (steps r)) (fun age => prompt r + Z.of_nat age).
Proof.
  induction n as [| n IH]; [reflexivity |]. cbn [sum]. rewrite IH. unfold weight.
  destruct (Nat.leb_spec (start r) n) as [A | A]; cbn [andb].
  - destruct (Nat.ltb_spec n (start r + steps r)) as [B | B].
    + replace (Nat.min (S n - start r) (steps r)) with (S (Nat.min (n - start r) (steps r))) by lia.
      cbn [sum]. replace (Nat.min (n - start r) (steps r)) with (n - start r)%nat by lia.
      reflexivity.
    + replace (Nat.min (S n - start r) (steps r)) with (Nat.min (n - start r) (steps r)) by lia.
      lia.
  - replace (Nat.min (S n - start r) (steps r)) with 0%nat by lia.
    replace (Nat.min (n - start r) (steps r)) with 0%nat by lia. reflexivity.
Qed.

Lemma work_of_ages n s :
  sum n (fun age => s + Z.of_nat age) = Z.of_nat n * s + Z.of_nat n * (Z.of_nat n - 1) / 2.
Proof.
  assert (E : 2 * sum n (fun age => s + Z.of_nat age)
              = 2 * (Z.of_nat n * s) + Z.of_nat n * (Z.of_nat n - 1)).
  { induction n as [| n IH]; [reflexivity |]. simpl sum. rewrite Nat2Z.inj_succ. nia. }
  replace (Z.of_nat n * (Z.of_nat n - 1))
    with (2 * (sum n (fun age => s + Z.of_nat age) - Z.of_nat n * s)) by lia.
  rewrite (Z.mul_comm 2), Z.div_mul by lia. lia.
Qed.

Theorem conservation rs G K :
  Forall (fun r => (replica r < G)%nat /\ (start r + steps r <= K)%nat) rs ->
  sum K (fun k => total (loads rs G k)) = total (map work rs).
Proof.
  intro H. rewrite (sum_ext _ _ (fun k => sum G (load rs k))) by (intros; apply total_seq).
  induction H as [| r rs [InG InK] H IH].
  - rewrite (sum_ext _ _ (fun _ => 0)); [apply sum_zero | intros; apply sum_zero].
  - simpl map. simpl total. rewrite <- IH.
    rewrite (sum_ext K _ (fun k => weight r k + sum G (load rs k))).
    + rewrite sum_add, weight_until.
      replace (Nat.min (K - start r) (steps r)) with (steps r) by lia.
      rewrite work_of_ages. reflexivity.
    + intros k _. rewrite <- (sum_one G (replica r) (weight r k) InG), <- sum_add. reflexivity.
Qed.

Corollary imbalance_is_barrier_time rs G K :
  Forall (fun r => (replica r < G)%nat /\ (start r + steps r <= K)%nat) rs ->
  sum K (fun k => imbalance (loads rs G k))
  = Z.of_nat G * sum K (fun k => peak (loads rs G k)) - total (map work rs).
Proof.
  intro H. rewrite <- (conservation rs G K H). clear H.
  assert (C : forall k, count (loads rs G k) = Z.of_nat G).
  { intro k. unfold count, loads. rewrite map_length, seq_length. reflexivity. }
  unfold imbalance. induction K as [| K IH]; simpl sum; [lia |]. rewrite IH, C. lia.
Qed.
