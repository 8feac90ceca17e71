import { useEffect, useRef } from "preact/hooks";

// useAutoScroll keeps the end of the page in sight while the element grows, until
// somebody scrolls up; if it begins elsewhere, from when somebody scrolls to it.
// Setting the second result to true brings the end back.
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
