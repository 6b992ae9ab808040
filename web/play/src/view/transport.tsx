// The controls of time: play, steps, the moment, the speed.

import { useEffect, useRef } from "preact/hooks";
import type { Session } from "../session";
import { SPEEDS } from "../session";
import { formatTime } from "./format";

function describeSpeed(speed: number): string {
  if (speed === Infinity) return "as fast as it goes";
  return speed < 1 ? `1/${Math.round(1 / speed)} of real time` : speed === 1 ? "real time" : `${speed} × real time`;
}

const SPANS: [number, string][] = [
  [0, "whole run"],
  [10_000, "last 10 s"],
  [2_000, "last 2 s"],
  [500, "last 500 ms"],
  [100, "last 100 ms"],
];

export function Transport({ session }: { session: Session }) {
  const slider = useRef<HTMLInputElement>(null);
  const clock = useRef<HTMLOutputElement>(null);
  useEffect(
    () =>
      session.onFrame(() => {
        if (slider.current) slider.current.value = String(session.now);
        if (clock.current) clock.current.textContent = formatTime(session.now);
      }),
    [session],
  );
  return (
    <div class="transport" role="group" aria-label="time">
      <button type="button" class="play" aria-label={session.isPlaying ? "pause" : "play"} onClick={() => (session.isPlaying ? session.pause() : session.play())}>
        {session.isPlaying ? "❚❚" : "▶"}
      </button>
      <button type="button" title="until the next packet leaves the link" onClick={() => session.stepPacket()}>
        + packet
      </button>
      <button type="button" title="on by one RTT" onClick={() => session.stepRtt()}>
        + RTT
      </button>
      <input
        ref={slider}
        type="range"
        class="moment"
        aria-label="moment"
        min={0}
        max={session.duration}
        step={1}
        onInput={(event) => {
          session.pause();
          session.seek(Number(event.currentTarget.value));
        }}
      />
      <output ref={clock} class="clock" aria-label="time of the run" />
      <label>
        <span class="label">speed</span>
        <select aria-label="speed" value={String(session.speed)} onChange={(event) => ((session.speed = Number(event.currentTarget.value)), session.changed())}>
          {SPEEDS.map((one) => (
            <option key={one} value={String(one)}>
              {describeSpeed(one)}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span class="label">show</span>
        <select aria-label="span of the charts" value={String(session.span)} onChange={(event) => ((session.span = Number(event.currentTarget.value)), session.changed())}>
          {SPANS.map(([ms, words]) => (
            <option key={ms} value={String(ms)}>
              {words}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}
