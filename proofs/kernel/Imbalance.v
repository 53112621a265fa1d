(* Imbalance of integer loads: T1 (increment identity), T12 (bounds), T15 (departure) and
   T16 (reflected walk), for every number of replicas.

   The functions read like brtheory/core/imbalance.py and brtheory/core/fscore.py: a list has one
   load per replica, peak, imbalance, margin and the score are the product's. Integers only, so
   nothing here rests on an axiom. *)
Require Import ZArith Lia List.
Import ListNotations.
Open Scope Z_scope.

Fixpoint peak (loads : list Z) : Z :=
  match loads with
  | [] => 0
  | [load] => load
  | load :: others => Z.max load (peak others)
  end.

Fixpoint lowest (loads : list Z) : Z :=
  match loads with
  | [] => 0
  | [load] => load
  | load :: others => Z.min load (lowest others)
  end.

Definition total (loads : list Z) : Z := fold_right Z.add 0 loads.
Definition count (loads : list Z) : Z := Z.of_nat (length loads).
Definition imbalance (loads : list Z) : Z := count loads * peak loads - total loads.
Definition margin (loads : list Z) (g : nat) : Z := peak loads - nth g loads 0.
Definition positive_part (x : Z) : Z := if 0 <? x then x else 0.
Definition score (G m delta : Z) : Z := delta - G * positive_part (delta - m).

Fixpoint added (loads : list Z) (g : nat) (delta : Z) : list Z :=
  match loads, g with
  | [], _ => []
  | load :: others, O => (load + delta) :: others
  | load :: others, S k => load :: added others k delta
  end.

(* Every load grows: a decode step adds the number of active requests. *)
Fixpoint grown (loads counts : list Z) : list Z :=
  match loads, counts with
  | load :: others, n :: rest => (load + n) :: grown others rest
  | _, _ => []
  end.

(* Requests of these sizes placed one at a time, each on a least-loaded replica. *)
Inductive placed : list Z -> list Z -> list Z -> Prop :=
| placed_nothing loads : placed loads [] loads
| placed_one loads g size sizes after :
    (g < length loads)%nat -> 0 <= size ->
    (forall load, In load loads -> nth g loads 0 <= load) ->
    placed (added loads g size) sizes after ->
    placed loads (size :: sizes) after.

(* Requests of these weights leave, from any replicas, in any order. *)
Inductive departed : list Z -> list Z -> list Z -> Prop :=
| departed_nothing loads : departed loads [] loads
| departed_one loads g weight weights after :
    (g < length loads)%nat -> 0 <= weight ->
    departed (added loads g (- weight)) weights after ->
    departed loads (weight :: weights) after.

Lemma positive_part_max x : positive_part x = Z.max x 0.
Proof. unfold positive_part. destruct (Z.ltb_spec 0 x); lia. Qed.

Lemma peak_cons load others : others <> [] -> peak (load :: others) = Z.max load (peak others).
Proof. destruct others; [congruence | reflexivity]. Qed.

Lemma lowest_cons load others :
  others <> [] -> lowest (load :: others) = Z.min load (lowest others).
Proof. destruct others; [congruence | reflexivity]. Qed.

Lemma count_cons load others : count (load :: others) = count others + 1.
Proof. unfold count. simpl length. lia. Qed.

Lemma count_positive loads : loads <> [] -> 1 <= count loads.
Proof. unfold count. destruct loads; [congruence | simpl length; lia]. Qed.

Lemma added_length loads g delta : length (added loads g delta) = length loads.
Proof. revert g; induction loads; destruct g; simpl; auto. Qed.

Lemma added_not_empty loads g delta : loads <> [] -> added loads g delta <> [].
Proof. destruct loads, g; simpl; congruence. Qed.

Lemma added_count loads g delta : count (added loads g delta) = count loads.
Proof. unfold count. rewrite added_length. reflexivity. Qed.

Lemma within loads x : In x loads -> lowest loads <= x <= peak loads.
Proof.
  induction loads as [| load others IH]; intro H; [destruct H |].
  destruct others as [| next rest].
  - destruct H as [<- | []]. simpl. lia.
  - rewrite peak_cons, lowest_cons by congruence. destruct H as [<- | H]; [lia |].
    specialize (IH H). lia.
Qed.

Lemma nth_in loads g : (g < length loads)%nat -> In (nth g loads 0) loads.
Proof. apply nth_In. Qed.

Lemma total_added loads g delta :
  (g < length loads)%nat -> total (added loads g delta) = total loads + delta.
Proof.
  revert g; induction loads as [| load others IH]; intros [| g] H; simpl in *; try lia.
  rewrite IH by lia. lia.
Qed.

Lemma peak_added loads g delta :
  (g < length loads)%nat -> 0 <= delta ->
  peak (added loads g delta) = Z.max (peak loads) (nth g loads 0 + delta).
Proof.
  revert g; induction loads as [| load others IH]; intros [| g] H D; simpl length in H; try lia.
  - simpl added. simpl nth. destruct others; [simpl; lia |].
    rewrite (peak_cons load), (peak_cons (load + delta)) by congruence. lia.
  - assert (N : others <> []) by (destruct others; [simpl in H; lia | congruence]).
    simpl added. simpl nth.
    rewrite (peak_cons load others), (peak_cons load (added _ _ _)), IH
      by (try apply added_not_empty; trivial; lia). lia.
Qed.

Lemma total_bounds loads :
  loads <> [] ->
  (count loads - 1) * lowest loads + peak loads <= total loads
  /\ total loads <= (count loads - 1) * peak loads + lowest loads.
Proof.
  induction loads as [| load others IH]; intro H; [congruence |].
  destruct others as [| next rest].
  { unfold count, total. cbn [length fold_right peak lowest Z.of_nat Pos.of_succ_nat]. lia. }
  assert (N : next :: rest <> []) by congruence. specialize (IH N).
  pose proof (count_positive _ N) as C.
  assert (W : lowest (next :: rest) <= peak (next :: rest)).
  { pose proof (within (next :: rest) next (or_introl eq_refl)). lia. }
  rewrite peak_cons, lowest_cons, count_cons by trivial.
  change (total (load :: next :: rest)) with (load + total (next :: rest)).
  revert IH C W. generalize (count (next :: rest)), (peak (next :: rest)),
    (lowest (next :: rest)), (total (next :: rest)). intros G P L S [A B] C W.
  destruct (Z.le_gt_cases load P); [rewrite (Z.max_r load P) by lia | rewrite Z.max_l by lia];
  (destruct (Z.le_gt_cases load L); [rewrite (Z.min_l load L) by lia | rewrite Z.min_r by lia]);
  nia.
Qed.

(* T1: admitting delta to g changes the imbalance by exactly minus its score. *)
Theorem increment loads g delta :
  (g < length loads)%nat -> 0 <= delta ->
  imbalance loads - imbalance (added loads g delta)
  = score (count loads) (margin loads g) delta.
Proof.
  intros H D. unfold imbalance, score, margin.
  rewrite added_count, total_added, peak_added, positive_part_max by trivial.
  pose proof (within loads _ (nth_in loads g H)) as W.
  replace (Z.max (peak loads) (nth g loads 0 + delta))
    with (peak loads + Z.max (delta - (peak loads - nth g loads 0)) 0) by lia.
  ring.
Qed.

(* T12 *)
Theorem imbalance_bounds loads :
  loads <> [] ->
  0 <= imbalance loads
  /\ peak loads - lowest loads <= imbalance loads
  /\ imbalance loads <= (count loads - 1) * (peak loads - lowest loads).
Proof.
  intro H. destruct (total_bounds loads H) as [A B]. pose proof (count_positive loads H) as C.
  assert (W : lowest loads <= peak loads).
  { destruct loads as [| load others]; [congruence |].
    pose proof (within (load :: others) load (or_introl eq_refl)). lia. }
  unfold imbalance. repeat split; nia.
Qed.

Theorem imbalance_zero loads :
  loads <> [] ->
  imbalance loads = 0 <-> (forall x y, In x loads -> In y loads -> x = y).
Proof.
  intro H. pose proof (imbalance_bounds loads H) as [A [B C]]. split.
  - intros Z x y X Y. pose proof (within loads x X). pose proof (within loads y Y). lia.
  - intro E. assert (P : peak loads = lowest loads).
    { clear -H E. induction loads as [| load others IH]; [congruence |].
      destruct others as [| next rest]; [reflexivity |].
      assert (N : next :: rest <> []) by congruence.
      rewrite peak_cons, lowest_cons, IH by (trivial; intros; apply E; simpl in *; tauto).
      pose proof (within (next :: rest) next (or_introl eq_refl)) as W.
      assert (load = next) by (apply E; simpl; tauto). rewrite IH in W;
        [lia | trivial | intros; apply E; simpl in *; tauto]. }
    rewrite P in *. nia.
Qed.

(* T15 *)
Theorem departure loads g weight :
  (g < length loads)%nat -> 0 <= weight ->
  imbalance loads - (count loads - 1) * weight <= imbalance (added loads g (- weight))
  /\ imbalance (added loads g (- weight)) <= imbalance loads + weight.
Proof.
  intros H W. set (after := added loads g (- weight)).
  assert (B : added after g weight = loads).
  { unfold after. clear.
    revert g; induction loads as [| load others IH]; intros [| g]; simpl; trivial.
    - f_equal. lia.
    - rewrite IH. trivial. }
  assert (L : (g < length after)%nat) by (unfold after; rewrite added_length; trivial).
  pose proof (increment after g weight L W) as D. rewrite B in D.
  unfold score in D. rewrite positive_part_max in D.
  assert (C : count after = count loads) by apply added_count. rewrite C in D.
  assert (M : 0 <= margin after g).
  { unfold margin. pose proof (within after _ (nth_in after g L)). lia. }
  assert (G : 1 <= count loads) by (apply count_positive; intros ->; simpl in *; lia).
  revert M G D. generalize (margin after g), (count loads). intros m k Hm Hk D.
  destruct (Z.max_spec (weight - m) 0) as [[_ E] | [_ E]]; rewrite E in D; nia.
Qed.

Lemma least_loaded_total loads low :
  (forall load, In load loads -> low <= load) -> count loads * low <= total loads.
Proof.
  induction loads as [| load others IH]; intro H; [unfold count; simpl; lia |].
  rewrite count_cons. simpl total. assert (low <= load) by (apply H; simpl; auto).
  assert (count others * low <= total others) by (apply IH; intros; apply H; simpl; auto). nia.
Qed.

Lemma least_loaded_step loads g size :
  (g < length loads)%nat -> 0 <= size -> (forall load, In load loads -> nth g loads 0 <= load) ->
  imbalance (added loads g size)
  <= Z.max (imbalance loads - size) ((count loads - 1) * size).
Proof.
  intros H S Least. unfold imbalance.
  rewrite added_count, total_added, peak_added by trivial.
  pose proof (least_loaded_total loads _ Least) as T.
  destruct (Z.max_spec (peak loads) (nth g loads 0 + size)) as [[_ ->] | [_ ->]]; [| lia].
  apply Z.le_trans with ((count loads - 1) * size); [| lia]. nia.
Qed.

Lemma placed_count loads sizes after : placed loads sizes after -> count after = count loads.
Proof. induction 1; trivial. rewrite IHplaced, added_count. trivial. Qed.

(* T16, one tick: any number of placements. *)
Theorem reflected loads sizes after largest :
  placed loads sizes after -> 0 <= largest -> Forall (fun size => size <= largest) sizes ->
  imbalance after <= Z.max (imbalance loads - total sizes) ((count loads - 1) * largest).
Proof.
  intros P L. induction P as [loads | loads g size sizes after H S Least P IH]; intro F.
  - simpl. lia.
  - inversion F; subst. specialize (IH H3). rewrite added_count in IH.
    pose proof (least_loaded_step loads g size H S Least) as St.
    assert (G : 1 <= count loads) by (apply count_positive; intros ->; simpl in *; lia).
    assert (T : 0 <= total sizes) by (clear -P; induction P; simpl in *; lia).
    assert (B : (count loads - 1) * size <= (count loads - 1) * largest) by nia.
    simpl total. lia.
Qed.

Lemma departed_bound loads weights after :
  departed loads weights after ->
  imbalance after <= imbalance loads + total weights /\ count after = count loads.
Proof.
  induction 1 as [loads | loads g weight weights after H W P [IH C]]; simpl total; [lia |].
  pose proof (departure loads g weight H W). rewrite added_count in C. lia.
Qed.

Lemma grown_bound loads counts :
  length counts = length loads ->
  imbalance (grown loads counts) <= imbalance loads + imbalance counts
  /\ count (grown loads counts) = count loads.
Proof.
  intro H. assert (A : length (grown loads counts) = length loads
    /\ total (grown loads counts) = total loads + total counts
    /\ peak (grown loads counts) <= peak loads + peak counts).
  { revert counts H; induction loads as [| load others IH]; intros [| n rest] H; try discriminate.
    - repeat split; cbn [grown peak]; lia.
    - injection H as H. destruct (IH rest H) as [E [T P]].
      simpl grown. simpl length. simpl total. split; [lia |]. split; [lia |].
      destruct others as [| next more], rest as [| k tail]; try discriminate; [simpl; lia |].
      change (grown (next :: more) (k :: tail)) with ((next + k) :: grown more tail) in *.
      rewrite (peak_cons load), (peak_cons n), (peak_cons (load + n)) by congruence. lia. }
  destruct A as [E [T P]]. unfold imbalance, count in *. rewrite E, T, H. split; nia.
Qed.

(* T16, one decode step: departures, growth, then placements. *)
Theorem decode_step loads weights left counts sizes after largest :
  departed loads weights left -> length counts = length left ->
  placed (grown left counts) sizes after ->
  0 <= largest -> Forall (fun size => size <= largest) sizes ->
  imbalance after
  <= Z.max (imbalance loads + total weights + imbalance counts - total sizes)
           ((count loads - 1) * largest).
Proof.
  intros D E P L F. destruct (departed_bound _ _ _ D) as [B C].
  destruct (grown_bound left counts E) as [B' C'].
  pose proof (reflected _ _ _ _ P L F) as R. rewrite C', C in R. lia.
Qed.

Fixpoint window (z : nat -> Z) (from length : nat) : Z :=
  match length with
  | O => 0
  | S rest => z from + window z (S from) rest
  end.

Lemma window_last z from length :
  window z from (S length) = window z from length + z (from + length)%nat.
Proof.
  revert from; induction length as [| n IH]; intro from.
  - simpl. rewrite Nat.add_0_r. lia.
  - change (window z from (S (S n))) with (z from + window z (S from) (S n)).
    rewrite IH. simpl window. replace (S from + n)%nat with (from + S n)%nat by lia. lia.
Qed.

(* T16, over time: a walk reflected at a floor stays within what any stretch of time adds. *)
Theorem reflected_walk (walk z : nat -> Z) floor most :
  (forall k, walk (S k) <= Z.max (walk k + z k) floor) ->
  (forall from length, window z from length <= most) ->
  forall k, walk k <= Z.max (walk O) floor + most.
Proof.
  intros Step Bound k.
  enough (exists from length, walk k <= Z.max (walk O) floor + window z from length
            /\ (length = O \/ (from + length)%nat = k)) as [from [length [H _]]].
  { specialize (Bound from length). lia. }
  induction k as [| k [from [length [H K]]]].
  - exists O, O. simpl. split; [lia | auto].
  - specialize (Step k). destruct (Z.le_gt_cases (walk k + z k) floor).
    + exists O, O. simpl. split; [lia | auto].
    + destruct K as [-> | K].
      * exists k, 1%nat. simpl in *. split; [lia | right; lia].
      * exists from, (S length). rewrite window_last, K. split; [lia | right; lia].
Qed.
