import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Button } from "./basic";

// A Dialog is the browser's own: it keeps the focus inside, closes with Esc and
// gives the focus back.
// One that stays is closed by its buttons only. A drawer is at the right edge of the
// window, for the details of a row. A bare one has no header. One that previews has a second column.
export function Dialog({ title, wide, form, previews, drawer, bare, stays, onClose, footer, children }: { title: string; wide?: boolean; form?: boolean; previews?: boolean; drawer?: boolean; bare?: boolean; stays?: boolean; onClose: () => void; footer?: ComponentChildren; children: ComponentChildren }) {
  const at = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = at.current!;
    const before = document.activeElement as HTMLElement | null;
    dialog.showModal();
    // Not the close button, unless no other element requests the focus.
    if (!dialog.querySelector("[autofocus]")) dialog.focus();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  return (
    <dialog
      ref={at}
      class={"dialog" + (wide ? " wide" : "") + (form ? " of-form" : "") + (previews ? " previews" : "") + (drawer ? " drawer" : "") + (bare ? " bare" : "")}
      tabIndex={-1}
      aria-label={title}
      onKeyDown={(event) => {
        // A browser closes a dialog at the second Escape, whatever becomes of its event.
        if (stays && event.key === "Escape") event.preventDefault();
      }}
      onClick={(event) => {
        // A click on the backdrop closes what holds no work that could be lost.
        if ((drawer || bare) && event.target === at.current) onClose();
      }}
      onCancel={(event) => {
        if (event.target !== at.current) return; // of the browser's choice of a file
        event.preventDefault();
        if (!stays) onClose();
      }}
    >
      {bare ? (
        children
      ) : (
        <>
          <header>
            <h2>{title}</h2>
            {!stays && <Button kind="quiet" icon="cross" label="Close" onClick={onClose} />}
          </header>
          <div class="body stack" tabIndex={drawer ? 0 : undefined}>
            {children}
          </div>
        </>
      )}
      {footer && <footer>{footer}</footer>}
    </dialog>
  );
}

// Confirm asks before a destructive action.
export function Confirm({ title, action, busy, onConfirm, onClose, children }: { title: string; action: string; busy?: boolean; onConfirm: () => void; onClose: () => void; children: ComponentChildren }) {
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button kind="danger" disabled={busy} onClick={onConfirm}>
            {action}
          </Button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}
