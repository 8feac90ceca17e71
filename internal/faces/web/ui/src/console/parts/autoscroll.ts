import { useEffect, useRef } from "preact/hooks";

// useAutoScroll keeps the end of the page in sight while the element grows, until the
// user scrolls up; if it begins elsewhere, after the user scrolls to it. Setting the
// second result to true scrolls to the end again.
export function useAutoScroll(begins = true) {
  const grows = useRef<HTMLDivElement>(null);
  const stick = useRef(begins);
  useEffect(() => {
    const listen = () => (stick.current = innerHeight + scrollY > document.documentElement.scrollHeight - 80);
    const watch = new ResizeObserver(() => {
      if (stick.current) scrollTo(0, document.documentElement.scrollHeight);
    });
    addEventListener("scroll", listen, { passive: true });
    watch.observe(grows.current!);
    return () => {
      removeEventListener("scroll", listen);
      watch.disconnect();
    };
  }, []);
  return [grows, stick] as const;
}
