(* Ready steps do not matter where requests may be held without limit: keep the busy steps of a
   schedule only, let them follow one another from any step on, and no load changes. *)
Require Import ZArith Lia List Arith Bool.
From Kernel Require Import Imbalance Conservation.
Import ListNotations.
Open Scope nat_scope.

Definition runs (r : request) (k : nat) : bool := (start r <=? k) && (k <? start r + steps r).

Definition busy (rs : list request) (k : nat) : bool := existsb (fun r => runs r k) rs.

(* Busy steps before k. *)
Fixpoint rank (rs : list request) (k : nat) : nat :=
  match k with
  | O => O
  | S j => rank rs j + if busy rs j then 1 else 0
  end.

(* The request in the schedule without idle steps that begins at base. *)
Definition moved (rs : list request) (base : nat) (r : request) : request :=
  {| start := base + rank rs (start r); steps := steps r;
     prompt := prompt r; replica := replica r |}.

Lemma rank_grows rs k n : k <= n -> rank rs k <= rank rs n.
Proof. induction 1; simpl; lia. Qed.

Lemma busy_counts rs k n : busy rs k = true -> k < n -> rank rs k < rank rs n.
Proof.
  intros B H. assert (rank rs (S k) <= rank rs n) by (apply rank_grows; lia).
  simpl in *. rewrite B in *. lia.
Qed.

Lemma running_is_busy rs r k : In r rs -> runs r k = true -> busy rs k = true.
Proof. intros I R. apply existsb_exists. eauto. Qed.

Lemma rank_while_running rs r age :
  In r rs -> age <= steps r -> rank rs (start r + age) = rank rs (start r) + age.
Proof.
  intro I. induction age as [| age IH]; intro H.
  - now rewrite !Nat.add_0_r.
  - replace (start r + S age) with (S (start r + age)) by lia. simpl.
    rewrite IH by lia. rewrite (running_is_busy rs r); trivial; [lia |].
    unfold runs. apply andb_true_iff. split; [apply Nat.leb_le | apply Nat.ltb_lt]; lia.
Qed.

Lemma same_weight rs base r k :
  In r rs -> busy rs k = true -> weight (moved rs base r) (base + rank rs k) = weight r k.
Proof.
  intros I B. unfold weight, moved; cbn [start steps prompt].
  destruct (Nat.leb_spec (start r) k) as [A | A].
  - destruct (Nat.ltb_spec k (start r + steps r)) as [C | C].
    + assert (E : rank rs k = rank rs (start r) + (k - start r)).
      { rewrite <- (rank_while_running rs r) by (trivial; lia). f_equal. lia. }
      rewrite E. destruct (Nat.leb_spec (base + rank rs (start r))
        (base + (rank rs (start r) + (k - start r)))); [| lia].
      destruct (Nat.ltb_spec (base + (rank rs (start r) + (k - start r)))
        (base + rank rs (start r) + steps r)); [| lia].
      cbn [andb]. do 2 f_equal. lia.
    + assert (rank rs (start r) + steps r <= rank rs k).
      { rewrite <- (rank_while_running rs r) by (trivial; lia). now apply rank_grows. }
      destruct (Nat.ltb_spec (base + rank rs k) (base + rank rs (start r) + steps r)); [lia |].
      now rewrite !andb_false_r.
  - assert (rank rs k < rank rs (start r)) by now apply busy_counts.
    destruct (Nat.leb_spec (base + rank rs (start r)) (base + rank rs k)); [lia |]. reflexivity.
Qed.

Lemma same_load rs base k g :
  busy rs k = true -> load (map (moved rs base) rs) (base + rank rs k) g = load rs k g.
Proof.
  intro B. unfold load. f_equal. rewrite map_map. apply map_ext_in. intros r I.
  change (replica (moved rs base r)) with (replica r).
  destruct (replica r =? g); trivial. now apply same_weight.
Qed.

(* Each busy step becomes one step with the same load on every replica ... *)
Theorem same_loads rs base G k :
  busy rs k = true -> loads (map (moved rs base) rs) G (base + rank rs k) = loads rs G k.
Proof. intro B. unfold loads. apply map_ext. intro g. now apply same_load. Qed.

(* ... these steps are one piece ... *)
Theorem one_piece rs n j : j < rank rs n -> exists k, k < n /\ busy rs k = true /\ rank rs k = j.
Proof.
  induction n as [| n IH]; simpl; intro H; [lia |].
  destruct (busy rs n) eqn:B.
  - destruct (Nat.eq_dec j (rank rs n)) as [-> | N]; [eauto |].
    destruct IH as (k & K & E); [lia |]. exists k. split; [lia | trivial].
  - destruct IH as (k & K & E); [lia |]. exists k. split; [lia | trivial].
Qed.

(* ... outside it nothing runs ... *)
Theorem nothing_else rs base n k :
  (forall r, In r rs -> start r + steps r <= n) ->
  k < base \/ base + rank rs n <= k -> busy (map (moved rs base) rs) k = false.
Proof.
  intros E H. apply not_true_is_false. intro B. apply existsb_exists in B.
  destruct B as (m & I & R). apply in_map_iff in I. destruct I as (r & <- & I).
  unfold runs, moved in R; cbn [start steps] in R. apply andb_true_iff in R. destruct R as [L U].
  apply Nat.leb_le in L. apply Nat.ltb_lt in U.
  assert (rank rs (start r) + steps r <= rank rs n).
  { rewrite <- (rank_while_running rs r) by (trivial; lia). apply rank_grows. now apply E. }
  lia.
Qed.

(* ... and no request starts before base. *)
Theorem not_before rs base r : base <= start (moved rs base r).
Proof. unfold moved; cbn [start]. lia. Qed.
