// The lessons, in the order in which they build on each other.

import { ackClock } from "./lessons/ack_clock";
import { bbr } from "./lessons/bbr";
import { codelPie } from "./lessons/codel_pie";
import { cubic } from "./lessons/cubic";
import { flowQueues } from "./lessons/flow_queues";
import { l4s } from "./lessons/l4s";
import type { Lesson } from "./lessons/lesson";
import { queue } from "./lessons/queue";
import { sawtooth } from "./lessons/sawtooth";
import { slowStart } from "./lessons/slow_start";

export { findRightChoice } from "./lessons/lesson";
export type { Lesson, Question } from "./lessons/lesson";
export type { WholeRun } from "./lessons/moments";

export const LESSONS: Lesson[] = [queue, slowStart, sawtooth, cubic, codelPie, flowQueues, bbr, l4s, ackClock];
