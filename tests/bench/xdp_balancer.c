// A balancer for the test of dut.object: by a hash of the client's end, with direct return.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define BACKENDS 3

struct service {
	__be32 address;
	__be16 port;
	__u16 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct service);
} pp_service SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} pp_to SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pp_sent SEC(".maps");

#ifdef __clang__
#define look_up bpf_map_lookup_elem
#else // gcc keeps the address of a helper that is called twice in a register
void *look_up(void *map, const void *key) __attribute__((kernel_helper(1)));
#endif

SEC("xdp")
int balance(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct ethhdr *link = data;
	struct iphdr *network = (void *)(link + 1);
	struct tcphdr *transport = (void *)(network + 1);
	__u32 first = 0, hash;
	struct service *service = look_up(&pp_service, &first);
	__u64 *sent = look_up(&pp_sent, &first);

	if (!service || !sent || (void *)(transport + 1) > end)
		return XDP_PASS;
	if (link->h_proto != bpf_htons(ETH_P_IP) || network->ihl != 5 || network->protocol != IPPROTO_TCP)
		return XDP_PASS;
	if (network->daddr != service->address || transport->dest != service->port)
		return XDP_PASS;
	hash = (network->saddr ^ transport->source) * 2654435761u;
	__builtin_memcpy(link->h_source, link->h_dest, ETH_ALEN);
	link->h_dest[0] = 0x02; // the lab's backends are at 02:00:00:00:0b:00 and the addresses behind it
	link->h_dest[1] = link->h_dest[2] = link->h_dest[3] = 0;
	link->h_dest[4] = 0x0b;
	link->h_dest[5] = ((hash >> 16) * BACKENDS) >> 16;
	*sent += 1;
	return bpf_redirect_map(&pp_to, 0, 0);
}

char _license[] SEC("license") = "Apache-2.0";
