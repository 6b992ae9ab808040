// One case of `make bench-peers` on csg-htsim: PROGRAM CASE SECONDS prints the packets that reached their receivers.
//
// htsim has DCTCP and a queue that marks from a threshold on. It has neither CUBIC nor CoDel: there its TCP (NewReno without SACK)
// goes over a FIFO of one bandwidth-delay product.

#include "clock.h"
#include "config.h"
#include "dctcp.h"
#include "ecnqueue.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "tcp.h"

#include <cstring>
#include <iostream>
#include <vector>

struct Case {
    const char* name;
    bool dctcp;
    int flows;
    uint64_t mbits;
    double base_rtt; // ms
};

static const Case CASES[] = {{"a", true, 10, 1000, 5}, {"b", false, 2, 100, 20}, {"c", true, 10, 10000, 5}, {"f", false, 10000, 100000, 20}};
static const int PACKET = 1500;

int main(int argc, char** argv) {
    const Case* found = nullptr;
    for (const Case& c : CASES) {
        found = argc == 3 && !strcmp(argv[1], c.name) ? &c : found;
    }
    if (!found) {
        std::cerr << "usage: PROGRAM CASE SECONDS\n";
        return 2;
    }
    const Case& c = *found;
    EventList& events = EventList::getTheEventList();
    events.setEndtime(timeFromSec(atof(argv[2])));
    srand(1);
    Packet::set_packet_size(PACKET);

    double bytes_per_ms = c.mbits * 1e6 / 8 / 1e3;
    mem_b bdp = static_cast<mem_b>(bytes_per_ms * c.base_rtt);
    linkspeed_bps rate = speedFromMbps(c.mbits);
    Queue* queue = c.dctcp ? new ECNQueue(rate, 1000000L * PACKET, events, nullptr, static_cast<mem_b>(0.85 * bytes_per_ms))
                           : new Queue(rate, bdp, events, nullptr);
    Pipe there(timeFromMs(c.base_rtt / 2), events), back(timeFromMs(c.base_rtt / 2), events);
    TcpRtxTimerScanner timers(timeFromMs(10), events);
    std::vector<TcpSink*> sinks;
    for (int flow = 0; flow < c.flows; ++flow) {
        TcpSrc* source = c.dctcp ? new DCTCPSrc(nullptr, nullptr, events) : new TcpSrc(nullptr, nullptr, events);
        TcpSink* sink = new TcpSink();
        source->setName("source");
        sink->setName("sink");
        source->set_ssthresh(0xffffffff);
        timers.registerTcp(*source);
        Route *out = new Route(), *in = new Route();
        out->push_back(queue);
        out->push_back(&there);
        out->push_back(sink);
        in->push_back(&back);
        in->push_back(source);
        source->connect(*out, *in, *sink, static_cast<simtime_picosec>(rand() / (RAND_MAX + 1.0) * timeFromMs(50)));
        sinks.push_back(sink);
    }
    // what htsim says of each timeout would be between the figures
    std::streambuf* said = std::cout.rdbuf(nullptr);
    while (events.doNextEvent()) {
    }
    std::cout.rdbuf(said);
    std::cout.clear();
    uint64_t packets = 0;
    for (const TcpSink* sink : sinks) {
        packets += sink->_packets / PACKET;
    }
    std::cout << packets << std::endl;
    _Exit(0); // freeing memory at the end is not what is measured
}
