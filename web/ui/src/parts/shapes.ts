// The shapes of states, as paths in a square of 12: for elements and for canvases.
export interface Shape {
  path: string
  /** Width of the line; 0: there is none. */
  line: number
  /** How much of the inside is filled. */
  fill: number
}

export const shapes: Record<string, Shape> = {
  circle: { path: "M6 1.8a4.2 4.2 0 1 0 0 8.4a4.2 4.2 0 1 0 0-8.4", line: 1.6, fill: 0 },
  dot: { path: "M6 2.8a3.2 3.2 0 1 0 0 6.4a3.2 3.2 0 1 0 0-6.4", line: 0, fill: 1 },
  half: { path: "M6 1.8a4.2 4.2 0 0 1 0 8.4zM6 1.8a4.2 4.2 0 1 0 0 8.4", line: 1.4, fill: 0.35 },
  diamond: { path: "M6 1l5 5-5 5-5-5z", line: 0, fill: 1 },
  arrow: { path: "M9.8 4.2A4.2 4.2 0 1 0 10.2 7M10.4 1.4v3h-3", line: 1.7, fill: 0 },
  tick: { path: "M1.8 6.4l2.9 3L10.2 3", line: 2, fill: 0 },
  cross: { path: "M2.4 2.4l7.2 7.2M9.6 2.4L2.4 9.6", line: 2.2, fill: 0 },
  "tick-cross": { path: "M1 6.4l2 2.2L6.6 4M7.4 6.4l3.6 3.6M11 6.4L7.4 10", line: 1.6, fill: 0 },
  clock: { path: "M6 1.4a4.6 4.6 0 1 0 0 9.2 4.6 4.6 0 0 0 0-9.2M6 3.4V6l2 1.4", line: 1.6, fill: 0 },
  dash: { path: "M2 6h8", line: 2, fill: 0 },
  bar: { path: "M2.8 9.2l6.4-6.4M6 1.4a4.6 4.6 0 1 0 0 9.2 4.6 4.6 0 0 0 0-9.2", line: 1.5, fill: 0 },
  pause: { path: "M3.6 2v8M8.4 2v8", line: 2.2, fill: 0 },
}
