// The icons, 16 by 16, drawn in the text's colour.
const paths = {
  overview: "M2 14V8M6 14V3M10 14V9M14 14V5",
  playground: "M2 3h12v8H7l-3 3v-3H2z",
  credits: "M2 5h12v8H2zM2 8h12M4.5 11h3",
  keys: "M10 9a3.5 3.5 0 1 0-3.3-2.4L2 11.3V14h2.7v-1.7h1.7v-1.7l1.6-1.6",
  agents: "M8 2v2M3.5 4h9v7h-9zM6 7v1M10 7v1M5.5 14h5M8 11v3",
  sessions: "M2 3h9v6H6l-2.5 2.5V9H2zM12.5 6H14v5.5h-1.5V14L10 11.5H7",
  folder: "M2 4h4l1.5 2H14v7H2z",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  text: "M4 2h5l3 3v9H4zM6 7.5h4M6 10h4",
  sheet: "M2.5 3h11v10h-11zM2.5 6.3h11M2.5 9.6h11M6.2 3v10",
  slides: "M2 3h12v8H2zM8 11v3M5.5 14h5",
  picture: "M2 3h12v10H2zM2 11l3.5-3.5 3 3 2-2L14 12M10.8 6v.1",
  mail: "M2 4h12v8.5H2zM2 4.5l6 4.5 6-4.5",
  upload: "M8 11V3M4.5 6.5L8 3l3.5 3.5M3 13.5h10",
  download: "M8 3v8M4.5 7.5L8 11l3.5-3.5M3 13.5h10",
  trash: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 9h5.8l.6-9",
  accounts: "M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4M10.5 2.8a2.5 2.5 0 0 1 0 4.4M12 9.8c1.6.5 2.5 1.9 2.5 3.7",
  members: "M8 8a2.8 2.8 0 1 0 0-5.6A2.8 2.8 0 0 0 8 8zM2.5 14c0-2.8 2.4-4 5.5-4s5.5 1.2 5.5 4",
  providers: "M1.5 8.5h3l2-5.5 3 10 2-4.5h3",
  usage: "M2 13.5h12M3.5 11l3-4 2.5 2 4-6",
  requests: "M2.5 3.5h11M2.5 8h11M2.5 12.5h7",
  nodes: "M2.5 2.5h11v4h-11zM2.5 9.5h11v4h-11zM5 4.5v.1M5 11.5v.1",
  webhooks: "M8 2v4M8 10v4M2.5 8h3M10.5 8h3M8 6a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  connections: "M6 9.5l-1.6 1.6a2 2 0 0 1-2.8-2.8L4 6M10 6.5l1.6-1.6a2 2 0 0 1 2.8 2.8L12 10M6.2 9.8l3.6-3.6",
  play: "M5 3l8 5-8 5z",
  pause: "M5.5 3v10M10.5 3v10",
  check: "M3 8.5l3.2 3.2L13 5",
  cross: "M4 4l8 8M12 4l-8 8",
  info: "M8 7.2V11.5M8 4.7v.1M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z",
  warning: "M8 2L14.5 13.5h-13zM8 6.5v3.2M8 11.6v.1",
  wait: "M8 4.5V8l2.3 1.6M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z",
  attach: "M13 7.5l-5.2 5.2a3 3 0 0 1-4.3-4.3L9 3a2 2 0 0 1 2.8 2.8l-5.3 5.3a1 1 0 0 1-1.4-1.4L10 4.9",
  send: "M8 13.5v-11M3.5 7L8 2.5 12.5 7",
  stop: "M4 4h8v8H4z",
  again: "M13.5 8A5.5 5.5 0 1 1 11.6 3.8M13.5 2v3.2h-3.2",
  plus: "M8 3v10M3 8h10",
  more: "M3.2 8v.1M8 8v.1M12.8 8v.1",
  next: "M6 3.5L10.5 8 6 12.5",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5L14 14",
  refused: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8zM3.8 3.8l8.4 8.4",
  approve: "M8 1.8l5 2v4c0 3.2-2.1 5.3-5 6.4-2.9-1.1-5-3.2-5-6.4v-4zM5.8 8l1.6 1.6L10.4 6.4",
  command: "M3 4l3.5 4L3 12M8 12h5",
  out: "M6 3H3v10h3M7 8h6.5M11 5.5L13.5 8 11 10.5",
  audit: "M3 2h10v12H3zM5.5 5.5h5M5.5 8h5M5.5 10.5h3",
  budgets: "M2.5 8a5.5 5.5 0 1 1 5.5 5.5M8 8L5 5M2.5 13.5h3v-3",
  up: "M5 7.5v6H2.5v-6zM5 7.5L7.5 2.5c1.3 0 1.8.9 1.5 2L8.6 6.5h4c.9 0 1.4.7 1.2 1.5l-1 4.3c-.2.8-.7 1.2-1.5 1.2H5",
  down: "M5 8.5v-6H2.5v6zM5 8.5L7.5 13.5c1.3 0 1.8-.9 1.5-2L8.6 9.5h4c.9 0 1.4-.7 1.2-1.5l-1-4.3c-.2-.8-.7-1.2-1.5-1.2H5",
  copy: "M6 6h7.5v7.5H6zM3.5 10H2.5V2.5H10v1",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg width="16" height="16" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
