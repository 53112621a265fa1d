(* T31: with KV growth every sticky deterministic router that binds at arrival can be driven to a
   peak load of exactly G times another assignment's, and to no more. *)
Require Import List Arith Lia.
Import ListNotations.

(* Requests of the list that the router placed on replica g. *)
Definition on (placed : nat -> nat) (g : nat) (requests : list nat) : list nat :=
  filter (fun i => placed i =? g) requests.

Fixpoint sum (n : nat) (f : nat -> nat) : nat :=
  match n with
  | O => O
  | S k => f k + sum k f
  end.

(* Identical requests: prompt s, one token a step, t steps later. *)
Definition load (s t : nat) (requests : list nat) : nat := length requests * (s + t).

Lemma sum_le n f g : (forall k, k < n -> f k <= g k) -> sum n f <= sum n g.
Proof.
  induction n as [| n IH]; simpl; intro H; [lia |].
  assert (f n <= g n) by (apply H; lia). assert (sum n f <= sum n g) by (apply IH; auto). lia.
Qed.

Lemma sum_const n c : sum n (fun _ => c) = n * c.
Proof. induction n; simpl; lia. Qed.

Lemma sum_bump n f x :
  sum n (fun g => if x =? g then S (f g) else f g) = sum n f + (if x <? n then 1 else 0).
Proof.
  induction n as [| n IH]; simpl; [destruct (Nat.ltb_spec x 0); lia |]. rewrite IH.
  destruct (Nat.eqb_spec x n), (Nat.ltb_spec x n), (Nat.ltb_spec x (S n)); lia.
Qed.

Lemma sum_on placed G requests :
  (forall i, In i requests -> placed i < G) ->
  sum G (fun g => length (on placed g requests)) = length requests.
Proof.
  induction requests as [| i requests IH]; intro H; [simpl; rewrite sum_const; lia |].
  assert (E : forall g, length (on placed g (i :: requests))
    = if placed i =? g then S (length (on placed g requests)) else length (on placed g requests)).
  { intro g. unfold on. simpl. destruct (placed i =? g); reflexivity. }
  transitivity (sum G (fun g => if placed i =? g
    then S (length (on placed g requests)) else length (on placed g requests))).
  { apply Nat.le_antisymm; apply sum_le; intros g _; rewrite E; lia. }
  rewrite sum_bump, IH by (intros; apply H; simpl; auto).
  assert (placed i < G) by (apply H; simpl; auto).
  simpl length. destruct (Nat.ltb_spec (placed i) G); lia.
Qed.

Lemma pigeonhole placed G k requests :
  0 < G -> (forall i, In i requests -> placed i < G) -> length requests = G * k ->
  exists g, g < G /\ k <= length (on placed g requests).
Proof.
  intros HG H E. destruct (Nat.eq_dec k 0) as [-> | K]; [exists 0; lia |].
  assert (D : (exists g, g < G /\ k <= length (on placed g requests))
              \/ (forall g, g < G -> length (on placed g requests) <= k - 1)).
  { clear - placed. generalize G as n. induction n as [| n IH]; [right; lia |].
    destruct IH as [[g [Hg P]] | IH]; [left; exists g; lia |].
    destruct (le_lt_dec k (length (on placed n requests))); [left; exists n; lia |].
    right. intros g Hg. destruct (Nat.eq_dec g n) as [-> |]; [lia | apply IH; lia]. }
  destruct D as [D | D]; [exact D |]. exfalso. pose proof (sum_on placed G requests H) as T.
  pose proof (sum_le G _ (fun _ => k - 1) D) as U. rewrite sum_const in U. nia.
Qed.

Lemma chunks j : forall G (requests : list nat),
  length requests = G * j ->
  exists parts, length parts = G /\ concat parts = requests /\ Forall (fun p => length p = j) parts.
Proof.
  induction G as [| G IH]; intros requests H; simpl in H.
  - exists []. simpl. destruct requests; simpl in *; [auto | lia].
  - destruct (IH (skipn j requests)) as [parts [A [B C]]]; [rewrite skipn_length; lia |].
    exists (firstn j requests :: parts). simpl. rewrite A, B, firstn_skipn.
    repeat split; auto. constructor; auto. rewrite firstn_length. lia.
Qed.

Lemma NoDup_firstn n (l : list nat) : NoDup l -> NoDup (firstn n l).
Proof.
  revert n. induction l as [| x l IH]; intros [| n] H; simpl; try constructor; inversion H; subst.
  - intro I. apply H2. rewrite <- (firstn_skipn n l). apply in_or_app. auto.
  - auto.
Qed.

(* G * (G * j) identical requests arrive; where they go is known before any of them ends. *)
Lemma survivors G j placed :
  0 < G -> (forall i, i < G * (G * j) -> placed i < G) ->
  exists g staying,
    g < G /\ NoDup staying
    /\ (forall i, In i staying -> i < G * (G * j) /\ placed i = g)
    /\ length staying = G * j
    /\ exists parts, length parts = G /\ concat parts = staying
                     /\ Forall (fun p => length p = j) parts.
Proof.
  intros HG H. set (all := seq 0 (G * (G * j))).
  destruct (pigeonhole placed G (G * j) all) as [g [Hg L]]; trivial.
  - intros i Hi. apply in_seq in Hi. apply H. lia.
  - apply seq_length.
  - assert (E : length (firstn (G * j) (on placed g all)) = G * j) by (rewrite firstn_length; lia).
    exists g, (firstn (G * j) (on placed g all)). repeat split; trivial.
    + apply NoDup_firstn, NoDup_filter, seq_NoDup.
    + assert (I : In i (on placed g all)).
      { rewrite <- (firstn_skipn (G * j)). apply in_or_app. auto. }
      apply filter_In in I. destruct I as [I _]. apply in_seq in I. lia.
    + assert (I : In i (on placed g all)).
      { rewrite <- (firstn_skipn (G * j)). apply in_or_app. auto. }
      apply filter_In in I. apply Nat.eqb_eq. tauto.
    + apply chunks. exact E.
Qed.

(* T31, lower half. The staying requests sit on one replica; spread evenly, j on each, they weigh a
   G-th at every later step t. Even with the load of the arrivals, G * j * s a replica when spread
   evenly, the peak ratio is G once they have stayed T >= (G - 1) s steps. *)
Theorem ratio_attained G j s T placed :
  0 < G -> (forall i, i < G * (G * j) -> placed i < G) -> (G - 1) * s <= T ->
  exists g staying parts,
    g < G /\ NoDup staying /\ length staying = G * j
    /\ (forall i, In i staying -> i < G * (G * j) /\ placed i = g)
    /\ length parts = G /\ concat parts = staying
    /\ (forall p t, In p parts -> load s t staying = G * load s t p)
    /\ (forall p, In p parts -> G * max (G * j * s) (load s T p) <= load s T staying).
Proof.
  intros HG H HT. destruct (survivors G j placed HG H)
    as [g [staying [Hg [N [M [L [parts [P1 [P2 P3]]]]]]]]].
  exists g, staying, parts. rewrite Forall_forall in P3. unfold load.
  split; [exact Hg |]. split; [exact N |]. split; [exact L |]. split; [exact M |].
  split; [exact P1 |]. split; [exact P2 |]. split.
  - intros p t Hp. rewrite L, (P3 p Hp). lia.
  - intros p Hp. rewrite L, (P3 p Hp).
    assert (G * j * s <= j * (s + T)) by (destruct G; [lia | simpl in *; nia]).
    rewrite Nat.max_r by trivial. lia.
Qed.

(* T31, upper half: no assignment of the same active requests exceeds another's peak by more. *)
Theorem ratio_never_exceeded G ours other most :
  sum G ours = sum G other -> (forall g, g < G -> other g <= most) ->
  forall g, g < G -> ours g <= G * most.
Proof.
  intros E H g Hg.
  assert (A : ours g <= sum G ours).
  { clear - Hg. induction G as [| n IH]; simpl; [lia |].
    destruct (Nat.eq_dec g n) as [-> |]; [lia |].
    assert (ours g <= sum n ours) by (apply IH; lia). lia. }
  pose proof (sum_le G other (fun _ => most) H) as B. rewrite sum_const in B. lia.
Qed.
