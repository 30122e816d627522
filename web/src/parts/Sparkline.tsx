const WIDTH = 96;
const HEIGHT = 24;

/** A line without axes, from 0 to its highest value; a gap where there is no value. */
export function Sparkline({ label, values }: { label: string; values: (number | null)[] }) {
  const most = values.reduce<number>((highest, value) => Math.max(highest, value ?? 0), 0);
  const across = WIDTH / Math.max(1, values.length - 1);
  let path = "";
  let gap = true;
  values.forEach((value, index) => {
    if (value === null) {
      gap = true;
      return;
    }
    const y = most > 0 ? HEIGHT - 1 - (value / most) * (HEIGHT - 2) : HEIGHT - 1;
    path += `${gap ? "M" : "L"}${(index * across).toFixed(1)} ${y.toFixed(1)}`;
    gap = false;
  });
  return (
    <svg width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label} style={{ display: "block" }}>
      <path d={path} fill="none" stroke="var(--mantine-color-cyan-7)" strokeWidth={1.5} strokeLinejoin="round" />
    </svg>
  );
}
