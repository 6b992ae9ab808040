// One case of `make bench-peers` on ns-3: PROGRAM CASE SECONDS prints the packets that left the bottleneck.
//
// Senders and receivers are on as few nodes as is good for ns-3: on one node each, next to each other, which is quickest up to some ten
// flows. A node looks for the socket of a packet one after the other, so many flows are spread over 100 nodes on each side.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstring>
#include <iostream>

using namespace ns3;

struct Case {
    const char* name;
    const char* control;
    uint32_t flows;
    uint64_t rate;     // bit/s
    double base_rtt;   // ms
    const char* queue; // step, codel or fq_codel
    uint32_t buffer;   // of a socket, bytes
    uint32_t nodes;    // on each side
};

static const Case CASES[] = {
    {"a", "ns3::TcpDctcp", 10, 1000000000, 5, "step", 4 << 20, 1},
    {"b", "ns3::TcpCubic", 2, 100000000, 20, "codel", 4 << 20, 1},
    {"c", "ns3::TcpDctcp", 10, 10000000000, 5, "step", 8 << 20, 1},
    {"f", "ns3::TcpCubic", 10000, 100000000000, 20, "fq_codel", 256 << 10, 100},
};

static const uint32_t SEGMENT = 1448; // with timestamps, frames of 1500 bytes

static TrafficControlHelper queue_of(const Case& c) {
    TrafficControlHelper helper;
    if (!std::strcmp(c.queue, "step")) {
        // RED whose average is the queue as it is, and whose two thresholds are one: 850 us of the link, as in the other simulators
        double threshold = 850e-6 * c.rate / 8 / 1500;
        helper.SetRootQueueDisc("ns3::RedQueueDisc", "MinTh", DoubleValue(threshold), "MaxTh", DoubleValue(threshold), "QW",
                                DoubleValue(1), "Gentle", BooleanValue(false), "UseEcn", BooleanValue(true), "UseHardDrop",
                                BooleanValue(false), "MaxSize", StringValue("1000000p"), "LinkBandwidth",
                                DataRateValue(DataRate(c.rate)));
    } else if (!std::strcmp(c.queue, "codel")) {
        helper.SetRootQueueDisc("ns3::CoDelQueueDisc", "UseEcn", BooleanValue(true));
    } else {
        helper.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "UseEcn", BooleanValue(true), "MaxSize", StringValue("1000000p"));
    }
    return helper;
}

int main(int argc, char** argv) {
    const Case* found = nullptr;
    for (const Case& c : CASES) {
        found = argc == 3 && !std::strcmp(argv[1], c.name) ? &c : found;
    }
    if (!found) {
        std::cerr << "usage: PROGRAM CASE SECONDS\n";
        return 2;
    }
    const Case& c = *found;
    double seconds = std::atof(argv[2]);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName(c.control)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(c.buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(c.buffer));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
    Config::SetDefault("ns3::DropTailQueue<Packet>::MaxSize", StringValue("2p"));

    NodeContainer senders, receivers, ends;
    senders.Create(c.nodes);
    receivers.Create(c.nodes);
    InternetStackHelper internet;
    internet.Install(senders);
    internet.Install(receivers);
    bool routers = c.nodes > 1;
    if (routers) {
        ends.Create(2);
        internet.Install(ends);
    } else {
        ends = NodeContainer(senders, receivers);
    }

    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", DataRateValue(DataRate(c.rate)));
    bottleneck.SetChannelAttribute("Delay", TimeValue(MicroSeconds(static_cast<uint64_t>(500 * c.base_rtt))));
    NetDeviceContainer devices = bottleneck.Install(ends);
    QueueDiscContainer queues = queue_of(c).Install(devices.Get(0));
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.255.0.0", "255.255.255.0");
    Ipv4InterfaceContainer between = addresses.Assign(devices);

    std::vector<Ipv4Address> where;
    if (routers) {
        PointToPointHelper access;
        access.SetDeviceAttribute("DataRate", DataRateValue(DataRate(4 * c.rate)));
        access.SetChannelAttribute("Delay", TimeValue(Seconds(0)));
        // a host's burst waits here for no longer than it takes to send it
        access.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000000p"));
        for (uint32_t side = 0; side < 2; ++side) {
            for (uint32_t i = 0; i < c.nodes; ++i) {
                NodeContainer pair(side ? receivers.Get(i) : senders.Get(i), ends.Get(side));
                addresses.SetBase(Ipv4Address((10u << 24) + (side << 16) + (i << 8)), "255.255.255.0");
                Ipv4InterfaceContainer one = addresses.Assign(access.Install(pair));
                if (side) {
                    where.push_back(one.GetAddress(0));
                }
            }
        }
        Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    } else {
        where.push_back(between.GetAddress(1));
    }

    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    for (uint32_t flow = 0; flow < c.flows; ++flow) {
        uint32_t node = flow % c.nodes;
        uint16_t port = static_cast<uint16_t>(5000 + flow / c.nodes);
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        sink.Install(receivers.Get(node)).Start(Seconds(0));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(where[node], port));
        source.SetAttribute("MaxBytes", UintegerValue(0));
        source.SetAttribute("SendSize", UintegerValue(10 * SEGMENT));
        source.Install(senders.Get(node)).Start(MicroSeconds(start->GetInteger(0, 50000)));
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    std::cout << queues.Get(0)->GetStats().nTotalDequeuedPackets << "\n";
    std::cout.flush();
    _Exit(0); // freeing memory at the end is not what is measured
}
