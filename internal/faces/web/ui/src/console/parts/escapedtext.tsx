// Texts of servers, shown as data.

// EscapedText shows a text whose invisible characters the API has escaped, and marks
// the escapes.
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
