// Columns that lists of calls share.
import { count, duration } from "../../lib/format";
import { Amount, Button } from "./basic";
import type { Column } from "./table";

// lastColumns contains the numbers of a call and the button for its details.
export function lastColumns<T extends { creditsMicro: number; durationMilliseconds: number }>(tokens: (row: T) => number, onPick: (row: T) => void): Column<T>[] {
  return [
    { title: "Tokens", number: true, show: (r) => count(tokens(r)) },
    { title: "Time", number: true, show: (r) => duration(r.durationMilliseconds) },
    { title: "Credits", number: true, show: (r) => <Amount of={r.creditsMicro} as="column" /> },
    {
      title: "",
      show: (r) => (
        <Button small kind="quiet" onClick={() => onPick(r)}>
          Details
        </Button>
      ),
    },
  ];
}
