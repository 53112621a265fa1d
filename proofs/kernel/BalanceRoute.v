(* T28: the two-stage tick of BR-0 and BR-H is a valid and eager rule, so T27 holds of it; and with
   BR-0's weights every decision's stated value is exactly what it takes off the imbalance.

   One rule covers both routers, as in brtheory/routers/reference.py: the score is
   A * delta - sum_h w_h (delta - m_h)_+ on rows of projected loads; BR-0 has one column, A = 1 and
   w = [G]. The program is extracted by Extract.v and compared with the product. *)
Require Import ZArith Lia List Arith Permutation Bool.
From Kernel Require Import Imbalance Tick.
Import ListNotations.
Open Scope Z_scope.

Record settings := {
  reward : Z;
  overflow : list Z;
  greedy_threshold : nat;
  max_subset : nat;
  margin_first : bool;
  longest_first : bool
}.

Definition choice : Type := list item * list item.

Fixpoint envelope (rows : list (list Z)) : list Z :=
  match rows with
  | [] => []
  | [row] => row
  | row :: others => map (fun p => Z.max (fst p) (snd p)) (combine row (envelope others))
  end.

Definition margins (top row : list Z) : list Z :=
  map (fun p => fst p - snd p) (combine top row).

Definition f_score (p : settings) (window : list Z) (delta : Z) : Z :=
  reward p * delta
  - total (map (fun x => fst x * positive_part (delta - snd x)) (combine (overflow p) window)).

Definition exceeds (a b : Z * Z) : bool :=
  (fst b <? fst a) || ((fst b =? fst a) && (snd b <? snd a)).

(* The first of the options with the largest key. *)
Fixpoint best (key : choice -> Z * Z) (so_far : choice) (options : list choice) : choice :=
  match options with
  | [] => so_far
  | option :: rest => best key (if exceeds (key option) (key so_far) then option else so_far) rest
  end.

(* One request and the rest, oldest first. *)
Fixpoint singles (items : list item) : list choice :=
  match items with
  | [] => []
  | i :: rest => ([i], rest) :: map (fun c => (fst c, i :: snd c)) (singles rest)
  end.

(* Every subset and the rest in the order of bit masks, the oldest request being bit 0. *)
Fixpoint subsets (items : list item) : list choice :=
  match items with
  | [] => [([], [])]
  | i :: rest => flat_map (fun c => [(fst c, i :: snd c); (i :: fst c, snd c)]) (subsets rest)
  end.

Definition allowed (most : nat) (c : choice) : bool :=
  ((1 <=? length (fst c)) && (length (fst c) <=? most))%nat.

Fixpoint next_replica (p : settings) (top : list Z) (g : nat) (rows : list (list Z))
    (slots : list nat) (so_far : option (nat * nat * list Z)) : option (nat * nat * list Z) :=
  match rows, slots with
  | row :: rows', free :: slots' =>
      let mine := margins top row in
      let key (free : nat) (m : list Z) :=
        if margin_first p then (hd 0 m, Z.of_nat free) else (Z.of_nat free, hd 0 m) in
      let better :=
        match so_far with
        | None => true
        | Some (_, free', window) => exceeds (key free mine) (key free' window)
        end in
      next_replica p top (S g) rows' slots'
        (if ((0 <? free)%nat && better)%bool then Some (g, free, mine) else so_far)
  | _, _ => so_far
  end.

Definition best_of (key : choice -> Z * Z) (options : list choice) (default : choice) : choice :=
  match options with
  | [] => default
  | first :: rest => best key first rest
  end.

Definition balance_route (p : settings) : rule := fun s =>
  match pool s with
  | [] => None
  | oldest :: others =>
      match next_replica p (envelope (rows s)) 0 (rows s) (slots s) None with
      | None => None
      | Some (g, free, window) =>
          let value (c : choice) := f_score p window (size (fst c)) in
          let by_score (c : choice) := (value c, size (fst c)) in
          let default := ([oldest], others) in
          if (greedy_threshold p <? list_sum (slots s))%nat then
            let key := if longest_first p then fun c => (size (fst c), 0) else by_score in
            let c := best_of key (singles (pool s)) default in
            Some {| replica := g; stage := 1; value := value c; taken := fst c; left := snd c |}
          else
            let candidates := firstn (max_subset p) (pool s) in
            let rest := skipn (max_subset p) (pool s) in
            let single := best_of by_score (singles candidates) default in
            let set := best_of by_score (filter (allowed free) (subsets candidates)) single in
            let c := if 0 <? value set then set else single in
            Some {| replica := g; stage := 2; value := value c;
                    taken := fst c; left := snd c ++ rest |}
      end
  end.

Lemma best_in key options so_far : In (best key so_far options) (so_far :: options).
Proof.
  revert so_far. induction options as [| option rest IH]; intro so_far; simpl; [auto |].
  destruct (IH (if exceeds (key option) (key so_far) then option else so_far)) as [<- | H]; auto.
  destruct (exceeds (key option) (key so_far)); auto.
Qed.

Lemma best_of_in key options default :
  In (best_of key options default) options
  \/ (options = [] /\ best_of key options default = default).
Proof. destruct options; simpl; [auto |]. left. apply best_in. Qed.

Lemma singles_split items c :
  In c (singles items) -> Permutation items (fst c ++ snd c) /\ length (fst c) = 1%nat.
Proof.
  revert c. induction items as [| i rest IH]; intros c H; simpl in H; [tauto |].
  destruct H as [<- | H]; [split; reflexivity |].
  apply in_map_iff in H. destruct H as [c' [<- H]]. destruct (IH c' H) as [P L]. cbn [fst snd].
  split; [| exact L]. rewrite P at 1. apply Permutation_middle.
Qed.

Lemma subsets_split items c : In c (subsets items) -> Permutation items (fst c ++ snd c).
Proof.
  revert c. induction items as [| i rest IH]; intros c H; simpl in H.
  - destruct H as [<- | []]. reflexivity.
  - apply in_flat_map in H. destruct H as [c' [H [<- | [<- | []]]]]; cbn [fst snd];
      rewrite (IH c' H) at 1; [apply Permutation_middle | reflexivity].
Qed.

Lemma next_replica_open p top : forall rows slots g so_far g' free window,
  next_replica p top g rows slots so_far = Some (g', free, window) ->
  so_far = Some (g', free, window)
  \/ (g <= g' /\ g' - g < length slots /\ nth (g' - g) slots 0 = free /\ 0 < free)%nat.
Proof.
  induction rows as [| row rows IH]; intros [| f slots] g so_far g' free window H;
    simpl in H; auto.
  apply IH in H. destruct H as [H | [A [B [C D]]]].
  - destruct (0 <? f)%nat eqn:F; cbn [andb] in H; auto. apply Nat.ltb_lt in F.
    match type of H with (if ?b then _ else _) = _ => destruct b end; auto.
    injection H as <- <- <-. right. rewrite Nat.sub_diag. simpl. lia.
  - right. replace (g' - g)%nat with (S (g' - S g)) by lia. simpl. lia.
Qed.

Lemma next_replica_kept p top : forall rows slots g found,
  next_replica p top g rows slots (Some found) <> None.
Proof.
  induction rows as [| row rows IH]; intros [| f slots] g found; simpl; try discriminate.
  match goal with |- context [if ?b then _ else _] => destruct b end; apply IH.
Qed.

Lemma next_replica_found p top : forall rows slots g,
  length rows = length slots -> (0 < list_sum slots)%nat ->
  next_replica p top g rows slots None <> None.
Proof.
  induction rows as [| row rows IH]; intros [| f slots] g L S; simpl in *; try lia.
  destruct (Nat.ltb_spec 0 f) as [F | F]; cbn [andb]; [apply next_replica_kept |].
  apply IH; lia.
Qed.

Lemma best_single_split key items default :
  items <> [] ->
  let c := best_of key (singles items) default in
  Permutation items (fst c ++ snd c) /\ length (fst c) = 1%nat.
Proof.
  intro H. destruct (best_of_in key (singles items) default) as [I | [E _]].
  - exact (singles_split _ _ I).
  - destruct items; [congruence | discriminate].
Qed.

(* Keeps the options of a decision readable in what follows. *)
Local Opaque best_of singles subsets.

Theorem balance_route_valid p : (0 < max_subset p)%nat -> valid (balance_route p).
Proof.
  intros R s d H. unfold balance_route in H. destruct (pool s) as [| oldest others] eqn:Q;
    [discriminate |].
  destruct (next_replica _ _ _ _ _ _) as [[[g free] window] |] eqn:N; [| discriminate].
  apply next_replica_open in N. destruct N as [N | [_ [G [Free Pos]]]]; [discriminate |].
  rewrite Nat.sub_0_r in *. set (all := oldest :: others) in *.
  assert (NonEmpty : all <> []) by discriminate.
  assert (Some1 : forall c : choice, length (fst c) = 1%nat -> fst c <> []).
  { intros c L E. rewrite E in L. discriminate. }
  destruct (greedy_threshold p <? list_sum (slots s))%nat.
  - injection H as <-. cbn [replica taken left].
    match goal with |- context [best_of ?key (singles all) ?default] =>
      destruct (best_single_split key all default NonEmpty) as [P L] end.
    repeat split; auto. cbv zeta in L. rewrite L. lia.
  - injection H as <-. cbn [replica taken left].
    assert (W : firstn (max_subset p) all <> []) by (destruct (max_subset p); [lia | discriminate]).
    set (key := fun c : choice => (f_score p window (size (fst c)), size (fst c))).
    destruct (best_single_split key _ ([oldest], others) W) as [P L].
    set (single := best_of key (singles (firstn (max_subset p) all)) ([oldest], others)) in *.
    set (set_ := best_of key (filter (allowed free) (subsets (firstn (max_subset p) all))) single).
    assert (Good : forall c : choice, c = single \/ c = set_ ->
      (1 <= length (fst c) <= free)%nat
      /\ Permutation (firstn (max_subset p) all) (fst c ++ snd c)).
    { intros c [-> | ->]; [split; [lia | exact P] |]. unfold set_.
      destruct (best_of_in key (filter (allowed free) (subsets (firstn (max_subset p) all))) single)
        as [I | [_ ->]]; [| split; [lia | exact P]].
      apply filter_In in I. destruct I as [I A]. apply subsets_split in I.
      apply andb_prop in A. destruct A as [A B].
      apply Nat.leb_le in A. apply Nat.leb_le in B. split; [lia | exact I]. }
    match goal with |- context [if ?b then set_ else single] =>
      assert (D : (if b then set_ else single) = single \/ (if b then set_ else single) = set_)
        by (destruct b; auto); set (c := if b then set_ else single) in * end.
    destruct (Good c D) as [Len Perm]. repeat split; auto.
    + intro E. rewrite E in Len. simpl in Len. lia.
    + lia.
    + rewrite app_assoc, <- Perm. symmetry. rewrite firstn_skipn. reflexivity.
Qed.

Theorem balance_route_eager p : eager (balance_route p).
Proof.
  intros s W Q S. unfold balance_route. destruct (pool s) as [| oldest others]; [congruence |].
  destruct (next_replica _ _ _ _ _ _) as [[[g free] window] |] eqn:N.
  - destruct (greedy_threshold p <? list_sum (slots s))%nat; discriminate.
  - exfalso. revert N. apply next_replica_found; trivial.
Qed.

(* T27 of T28's rule, for both key orders, any weights, threshold and subset size. *)
Corollary balance_route_guarantees p s :
  (0 < max_subset p)%nat -> well_formed s ->
  let (ds, after) := tick (balance_route p) s in
  Permutation (pool s) (dispatched ds ++ pool after)
  /\ (NoDup (pool s) -> NoDup (dispatched ds))
  /\ (forall g, (dispatched_to g ds <= nth g (slots s) 0)%nat)
  /\ length (dispatched ds) = Nat.min (length (pool s)) (list_sum (slots s)).
Proof.
  intros R W. apply tick_guarantees; trivial.
  - apply balance_route_valid. exact R.
  - apply balance_route_eager.
Qed.

(* BR-0: one column of loads, A = 1, w = [G]. *)
Definition present (rows : list (list Z)) : list Z := map (hd 0) rows.

Definition one_column (rows : list (list Z)) : Prop := Forall (fun row => length row = 1%nat) rows.

Lemma next_replica_window p top : forall rows slots g so_far g' free window,
  next_replica p top g rows slots so_far = Some (g', free, window) ->
  so_far = Some (g', free, window)
  \/ (g <= g' /\ g' - g < length rows /\ window = margins top (nth (g' - g) rows []))%nat.
Proof.
  induction rows as [| row rows IH]; intros [| f slots] g so_far g' free window H;
    simpl in H; auto.
  apply IH in H. destruct H as [H | [A [B C]]].
  - match type of H with (if ?b then _ else _) = _ => destruct b end; auto.
    injection H as <- <- <-. right. rewrite Nat.sub_diag. simpl. repeat split; lia.
  - right. replace (g' - g)%nat with (S (g' - S g)) by lia. simpl. repeat split; try lia; exact C.
Qed.

Lemma envelope_one_column rows :
  one_column rows -> rows <> [] -> envelope rows = [peak (present rows)].
Proof.
  induction 1 as [| row rows L H IH]; intro N; [congruence |].
  destruct row as [| l [| ]]; try discriminate. destruct rows as [| next others]; [reflexivity |].
  change (envelope ([l] :: next :: others))
    with (map (fun p => Z.max (fst p) (snd p)) (combine [l] (envelope (next :: others)))).
  rewrite IH by congruence. reflexivity.
Qed.

Lemma present_carried rows g delta :
  one_column rows -> present (modify g (map (Z.add delta)) rows) = added (present rows) g delta.
Proof.
  intro H. revert g. induction H as [| row rows L H IH]; intros [| g]; simpl; trivial.
  - destruct row as [| l [| ]]; try discriminate. simpl. f_equal. lia.
  - rewrite IH. reflexivity.
Qed.

(* The stated value of a decision is exactly what it takes off the imbalance, so the values of a
   tick, each with margins refreshed, add up to the whole change. *)
Theorem value_is_gain p s d :
  balance_route p s = Some d -> one_column (rows s) ->
  reward p = 1 -> overflow p = [count (present (rows s))] -> 0 <= size (taken d) ->
  value d = imbalance (present (rows s)) - imbalance (present (rows (carry_out s d))).
Proof.
  intros H One R O Size. unfold balance_route in H. destruct (pool s); [discriminate |].
  destruct (next_replica _ _ _ _ _ _) as [[[g free] window] |] eqn:N; [| discriminate].
  apply next_replica_window in N. destruct N as [N | [_ [G W]]]; [discriminate |].
  rewrite Nat.sub_0_r in *.
  assert (V : replica d = g /\ value d = f_score p window (size (taken d))).
  { destruct (greedy_threshold p <? list_sum (slots s))%nat;
      injection H as <-; split; reflexivity. }
  destruct V as [<- ->]. unfold carry_out. cbn [rows].
  rewrite present_carried, increment by (trivial; unfold present; rewrite map_length; exact G).
  assert (E : nth (replica d) (rows s) [] = [nth (replica d) (present (rows s)) 0]).
  { unfold present. rewrite (nth_indep _ 0 (hd 0 [])) by (rewrite map_length; exact G).
    rewrite map_nth. unfold one_column in One. rewrite Forall_forall in One.
    specialize (One _ (nth_In (rows s) [] G)).
    destruct (nth (replica d) (rows s) []) as [| only [| ]]; try discriminate. reflexivity. }
  assert (F : rows s <> []) by (intro Z0; rewrite Z0 in G; simpl in G; lia).
  rewrite W, E, envelope_one_column by trivial.
  unfold f_score, margins, score, margin. rewrite R, O. cbn [combine map fst snd total fold_right].
  ring.
Qed.
