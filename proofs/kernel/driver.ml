(* Reads cases of integers from standard input and prints one line of decisions for each. *)
let int () = Scanf.scanf " %d" Fun.id
let many read = List.init (int ()) (fun _ -> read ())

let settings () =
  let reward = int () in
  let overflow = many int in
  let greedy_threshold = int () in
  let max_subset = int () in
  let margin_first = int () = 1 in
  let longest_first = int () = 1 in
  Extracted.{ reward; overflow; greedy_threshold; max_subset; margin_first; longest_first }

let state () =
  let rows = many (fun () -> many int) in
  let slots = many int in
  let prompts = many int in
  let pool = List.mapi (fun ident prompt -> Extracted.{ ident; prompt }) prompts in
  Extracted.{ rows; slots; pool }

let print_decision (d : Extracted.decision) =
  List.iter
    (fun (i : Extracted.item) ->
      Printf.printf "%d %d %d %d " i.ident d.replica d.stage d.value)
    d.taken

let () =
  for _ = 1 to int () do
    let rule = Extracted.balance_route (settings ()) in
    let decisions, _ = Extracted.tick rule (state ()) in
    List.iter print_decision decisions;
    print_newline ()
  done
