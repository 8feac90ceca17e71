// Columns that lists of calls share.
import { count, duration } from "../../lib/format";
import { Amount } from "./basic";
import { Icon } from "./icon";
import type { Column } from "./table";

// lastColumns contains the numbers of a call and the button for its details.
export function lastColumns<T extends { creditsMicro: number; durationMilliseconds: number }>(tokens: (row: T) => number, onPick: (row: T) => void): Column<T>[] {
  return [
    { title: "Tokens", number: true, show: (r) => count(tokens(r)) },
    { title: "Time", sort: "duration", number: true, keep: 1, show: (r) => duration(r.durationMilliseconds) },
    { title: "Credits", sort: "spent", number: true, keep: 2, show: (r) => <Amount of={r.creditsMicro} as="column" /> },
    {
      title: "",
      show: (r) => (
        <button type="button" class="button quiet icon small" title="Details" onClick={() => onPick(r)}>
          <Icon name="next" />
          <span class="unseen">Details</span>
        </button>
      ),
    },
  ];
}
