(* T27: the tick as a loop over an arbitrary choice rule, and what every valid and eager rule
   guarantees: nothing lost, nothing twice, slots respected, min(pool, slots) dispatched. *)
Require Import ZArith Lia List Arith Permutation.
Import ListNotations.

Record item := { ident : nat; prompt : Z }.

(* One row of projected loads and one number of free slots per replica; oldest request first. *)
Record state := { rows : list (list Z); slots : list nat; pool : list item }.

Record decision := {
  replica : nat;
  stage : nat;
  value : Z;
  taken : list item;
  left : list item
}.

Definition rule := state -> option decision.

Definition size (items : list item) : Z := fold_right (fun i rest => (prompt i + rest)%Z) 0%Z items.

Fixpoint modify {A} (g : nat) (f : A -> A) (l : list A) : list A :=
  match l, g with
  | [], _ => []
  | x :: rest, O => f x :: rest
  | x :: rest, S k => x :: modify k f rest
  end.

Definition carry_out (s : state) (d : decision) : state := {|
  rows := modify (replica d) (map (Z.add (size (taken d)))) (rows s);
  slots := modify (replica d) (fun free => free - length (taken d)) (slots s);
  pool := left d
|}.

Fixpoint loop (choose : rule) (fuel : nat) (s : state) : list decision * state :=
  match fuel with
  | O => ([], s)
  | S k =>
      match choose s with
      | None => ([], s)
      | Some d => let (later, after) := loop choose k (carry_out s d) in (d :: later, after)
      end
  end.

(* Every decision takes at least one request, so the pool's length is fuel enough. *)
Definition tick (choose : rule) (s : state) : list decision * state :=
  loop choose (length (pool s)) s.

Definition well_formed (s : state) : Prop := length (rows s) = length (slots s).

Definition valid (choose : rule) : Prop := forall s d,
  choose s = Some d ->
  replica d < length (slots s) /\ taken d <> []
  /\ length (taken d) <= nth (replica d) (slots s) 0
  /\ Permutation (pool s) (taken d ++ left d).

Definition eager (choose : rule) : Prop := forall s,
  well_formed s -> pool s <> [] -> 0 < list_sum (slots s) -> choose s <> None.

Definition dispatched (ds : list decision) : list item := flat_map taken ds.

Definition dispatched_to (g : nat) (ds : list decision) : nat :=
  list_sum (map (fun d => if replica d =? g then length (taken d) else 0) ds).

Lemma modify_length A g (f : A -> A) l : length (modify g f l) = length l.
Proof. revert g; induction l; destruct g; simpl; auto. Qed.

Lemma modify_same g f l : g < length l -> nth g (modify g f l) 0 = f (nth g l 0).
Proof. revert g; induction l; destruct g; simpl; intros; try lia; auto. apply IHl; lia. Qed.

Lemma modify_other g h f l : g <> h -> nth h (modify g f l) 0 = nth h l 0.
Proof. revert g h; induction l; destruct g, h; simpl; intros; auto; try lia. Qed.

Lemma modify_sum g k l :
  g < length l -> k <= nth g l 0 ->
  list_sum (modify g (fun free => free - k) l) + k = list_sum l.
Proof.
  revert g; induction l as [| x l IH]; intros [| g] H K; simpl in *; try lia.
  specialize (IH g). lia.
Qed.

Lemma carry_out_well_formed s d : well_formed s -> well_formed (carry_out s d).
Proof. unfold well_formed, carry_out. cbn [rows slots]. rewrite !modify_length. trivial. Qed.

Lemma loop_correct choose fuel : forall s,
  valid choose -> eager choose -> well_formed s -> length (pool s) <= fuel ->
  let (ds, after) := loop choose fuel s in
  Permutation (pool s) (dispatched ds ++ pool after)
  /\ (forall g, dispatched_to g ds + nth g (slots after) 0 = nth g (slots s) 0)
  /\ length (dispatched ds) + list_sum (slots after) = list_sum (slots s)
  /\ (pool after = [] \/ list_sum (slots after) = 0).
Proof.
  induction fuel as [| fuel IH]; intros s V E W F; simpl.
  { destruct (pool s); simpl in *; [| lia]. repeat split; auto. }
  destruct (choose s) as [d |] eqn:C.
  - destruct (V s d C) as [Hg [Any [Room P]]].
    pose proof (Permutation_length P) as N. rewrite app_length in N.
    assert (T : length (taken d) <> 0) by (destruct (taken d); simpl; congruence).
    specialize (IH (carry_out s d) V E (carry_out_well_formed s d W)).
    cbn [pool slots carry_out] in IH. destruct (loop choose fuel (carry_out s d)) as [ds after].
    destruct IH as [A [B [D Stop]]]; [lia |]. unfold dispatched in *. cbn [flat_map].
    repeat split.
    + rewrite P, A, app_assoc. reflexivity.
    + intro g. specialize (B g). unfold dispatched_to, list_sum in *.
      cbn [map fold_right].
      destruct (Nat.eqb_spec (replica d) g) as [<- | O].
      * rewrite modify_same in B by trivial. lia.
      * rewrite modify_other in B by trivial. lia.
    + rewrite app_length. pose proof (modify_sum _ _ _ Hg Room). lia.
    + exact Stop.
  - repeat split; auto. destruct (pool s) as [| i rest] eqn:Q; [auto |]. right.
    destruct (Nat.eq_dec (list_sum (slots s)) 0); auto.
    exfalso. apply (E s W); [rewrite Q; discriminate | lia | exact C].
Qed.

Lemma NoDup_before A (a b : list A) : NoDup (a ++ b) -> NoDup a.
Proof.
  induction a as [| x a IH]; intro H; [constructor |]. inversion H; subst.
  constructor; [intro; apply H2, in_or_app; auto | auto].
Qed.

(* T27 *)
Theorem tick_guarantees choose s :
  valid choose -> eager choose -> well_formed s ->
  let (ds, after) := tick choose s in
  Permutation (pool s) (dispatched ds ++ pool after)
  /\ (NoDup (pool s) -> NoDup (dispatched ds))
  /\ (forall g, dispatched_to g ds <= nth g (slots s) 0)
  /\ length (dispatched ds) = Nat.min (length (pool s)) (list_sum (slots s)).
Proof.
  intros V E W. pose proof (loop_correct choose (length (pool s)) s V E W (le_n _)) as H.
  unfold tick. destruct (loop choose (length (pool s)) s) as [ds after].
  destruct H as [P [Q [T Stop]]]. repeat split.
  - exact P.
  - intro N. eapply Permutation_NoDup in P; [| exact N]. eapply NoDup_before. exact P.
  - intro g. specialize (Q g). lia.
  - apply Permutation_length in P. rewrite app_length in P.
    destruct Stop as [Stop | Stop]; [rewrite Stop in P; simpl in P |]; lia.
Qed.
