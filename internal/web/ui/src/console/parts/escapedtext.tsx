// Texts of servers, shown as data.

// EscapedText is a text in which characters that cannot be seen are written out, as the API
// does it: those are marked.
export function EscapedText({ text }: { text: string }) {
  const parts = text.split(/(\\u\{[0-9a-f]+\})/);
  return (
    <>
      {parts.map((part, i) =>
        i % 2 ? (
          <mark title="A character that cannot be seen" key={i}>
            {part}
          </mark>
        ) : (
          part
        ),
      )}
    </>
  );
}
