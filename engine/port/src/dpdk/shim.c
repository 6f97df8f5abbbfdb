/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of DPDK that is inline functions and macros, behind plain
 * functions, each crossed once per burst. ffi.rs declares them.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_version.h>

/* Taken descriptors from which on a virtio port frees them: one burst of ours. */
#define PP_FREED 64

struct pp_info {
	uint16_t rx_ring;
	uint16_t tx_ring;
	uint16_t mtu;
	uint8_t is_vdev;
	uint8_t has_mac;
	uint8_t mac[6];
	char driver[64];
	uint16_t max_queues;
	int16_t node;
	char settings[160];
};

const char *pp_version(void)
{
	return rte_version();
}

const char *pp_strerror(int code)
{
	return rte_strerror(code < 0 ? -code : code);
}

/* Returns 0 or a negative errno. */
int pp_eal_init(int argc, char **argv)
{
	rte_openlog_stream(stderr);
	if (rte_eal_init(argc, argv) < 0)
		return rte_errno > 0 ? -rte_errno : -EINVAL;
	return 0;
}

int pp_thread_register(void)
{
	return rte_thread_register() < 0 ? -rte_errno : 0;
}

void pp_thread_unregister(void)
{
	rte_thread_unregister();
}

/* Most bytes that the heap of a NUMA node has to give without growing. */
size_t pp_heap_free(void)
{
	struct rte_malloc_socket_stats stats;
	size_t most = 0;

	for (unsigned int i = 0; i < rte_socket_count(); i++)
		if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) == 0)
			most = RTE_MAX(most, stats.heap_freesz_bytes);
	return most;
}

/* Bytes of the pool's buffers, without what ends of pages waste. */
size_t pp_pool_bytes(unsigned int mbufs, uint16_t room)
{
	uint32_t size = sizeof(struct rte_mbuf) + room + RTE_PKTMBUF_HEADROOM;

	return (size_t)mbufs * rte_mempool_calc_obj_size(size, 0, NULL);
}

/* A pool in the memory of a NUMA node, of any one where node is negative; null
 * if there is not enough. No two have the same name, which DPDK refuses. */
struct rte_mempool *pp_pool_create(int node, unsigned int mbufs,
				   unsigned int cache, uint16_t room)
{
	static unsigned int made;
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "pinchpoint%u",
		 __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED));
	return rte_pktmbuf_pool_create(name, mbufs, cache, 0,
				       room + RTE_PKTMBUF_HEADROOM,
				       node < 0 ? SOCKET_ID_ANY : node);
}

/* Buffers in a thread's cache are not in use. */
unsigned int pp_pool_in_use(const struct rte_mempool *pool)
{
	return rte_mempool_in_use_count(pool);
}

void pp_pool_free(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

/* Probes a device and finds its first ethdev port that is not yet started. */
int pp_attach(const char *devargs, uint16_t *port)
{
	struct rte_dev_iterator it;
	uint16_t id;
	int rc = rte_dev_probe(devargs);

	if (rc < 0 && rc != -EEXIST)
		return rc;
	RTE_ETH_FOREACH_MATCHING_DEV(id, devargs, &it) {
		rte_eth_iterator_cleanup(&it);
		*port = id;
		return 0;
	}
	return -ENODEV;
}

static void fill_info(uint16_t port, const struct rte_eth_dev_info *dev,
		      struct pp_info *info)
{
	struct rte_ether_addr mac;
	const struct rte_bus *bus = rte_dev_bus(dev->device);

	info->is_vdev = bus != NULL && strcmp(rte_bus_name(bus), "vdev") == 0;
	info->node = (int16_t)rte_eth_dev_socket_id(port);
	snprintf(info->driver, sizeof(info->driver), "%s", dev->driver_name);
	info->has_mac = rte_eth_macaddr_get(port, &mac) == 0 &&
			!rte_is_zero_ether_addr(&mac);
	memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	rte_eth_dev_get_mtu(port, &info->mtu);
}

/* What a NIC has in force, as it says itself: its memory's node, receive side
 * scaling, offloads, flow control (rte_eth_fc_mode). */
static void describe(uint16_t port, char *text, size_t room)
{
	static const char *const flow[] = {"off", "rx", "tx", "rx and tx"};
	struct rte_eth_rss_conf rss = {0};
	struct rte_eth_fc_conf fc = {0};
	struct rte_eth_conf conf = {0};
	const char *mode = "not reported";
	int node = rte_eth_dev_socket_id(port);

	if (rte_eth_dev_flow_ctrl_get(port, &fc) == 0 &&
	    (unsigned int)fc.mode < RTE_DIM(flow))
		mode = flow[fc.mode];
	(void)rte_eth_dev_conf_get(port, &conf);
	if (rte_eth_dev_rss_hash_conf_get(port, &rss) < 0)
		rss.rss_hf = 0;
	snprintf(text, room,
		 "NUMA node %d, RSS 0x%llx, offloads rx 0x%llx tx 0x%llx, flow control %s",
		 node, (unsigned long long)rss.rss_hf,
		 (unsigned long long)conf.rxmode.offloads,
		 (unsigned long long)conf.txmode.offloads, mode);
}

/* Asks for receive side scaling where there is something to scale: by address
 * and port, as far as the device can. */
static void spread(const struct rte_eth_dev_info *dev, uint16_t queues,
		   struct rte_eth_conf *conf)
{
	if (queues < 2 || dev->flow_type_rss_offloads == 0)
		return;
	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf.rss_hf =
		dev->flow_type_rss_offloads &
		(RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
}

static int configure(uint16_t port, const struct rte_eth_dev_info *dev,
		     uint16_t queues, uint16_t mtu, struct rte_eth_conf *conf)
{
	int rc;

	memset(conf, 0, sizeof(*conf));
	conf->rxmode.mtu = RTE_MIN(mtu, dev->max_mtu);
	conf->txmode.offloads =
		dev->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	spread(dev, queues, conf);
	rc = rte_eth_dev_configure(port, queues, queues, conf);
	if (rc < 0) {
		conf->rxmode.mtu = RTE_ETHER_MTU;
		rc = rte_eth_dev_configure(port, queues, queues, conf);
	}
	return rc;
}

/* Configures as many receive as transmit queues, each with a pool, and starts
 * the port. Every mbuf that a queue transmits is a direct one of its pool, which
 * is what MBUF_FAST_FREE asks for. */
int pp_start(uint16_t port, struct rte_mempool *const *pools, uint16_t queues,
	     uint16_t rx_ring, uint16_t tx_ring, uint16_t mtu,
	     struct pp_info *info)
{
	struct rte_eth_dev_info dev;
	struct rte_eth_conf conf;
	struct rte_eth_txconf txconf;
	uint16_t queue;
	int rc = rte_eth_dev_info_get(port, &dev);

	if (rc < 0)
		return rc;
	memset(info, 0, sizeof(*info));
	info->max_queues = RTE_MIN(dev.max_rx_queues, dev.max_tx_queues);
	rc = configure(port, &dev, queues, mtu, &conf);
	if (rc < 0)
		return rc;
	rc = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx_ring, &tx_ring);
	if (rc < 0)
		return rc;
	txconf = dev.default_txconf;
	txconf.offloads = conf.txmode.offloads;
	/*
	 * virtio frees what the switch has taken only when the ring is nearly
	 * full, and then all of it at once: 0.2 ms for 1,024 frames, a pause
	 * in every burst. With this threshold it frees as it sends.
	 */
	if (strcmp(dev.driver_name, "net_virtio_user") == 0 && tx_ring > 2 * PP_FREED)
		txconf.tx_free_thresh = tx_ring - PP_FREED;
	for (queue = 0; queue < queues; queue++) {
		rc = rte_eth_rx_queue_setup(port, queue, rx_ring,
					    rte_eth_dev_socket_id(port), NULL,
					    pools[queue]);
		if (rc < 0)
			return rc;
		rc = rte_eth_tx_queue_setup(port, queue, tx_ring,
					    rte_eth_dev_socket_id(port),
					    &txconf);
		if (rc < 0)
			return rc;
	}
	rc = rte_eth_dev_start(port);
	if (rc < 0)
		return rc;
	/* Frames are ours to send to any address; not every driver can. */
	(void)rte_eth_promiscuous_enable(port);
	info->rx_ring = rx_ring;
	info->tx_ring = tx_ring;
	fill_info(port, &dev, info);
	if (!info->is_vdev)
		describe(port, info->settings, sizeof(info->settings));
	return 0;
}

/* Asking for the link is also what lets a vhost-user server port notice that
 * its client has come or gone. */
int pp_link_up(uint16_t port)
{
	struct rte_eth_link link;

	memset(&link, 0, sizeof(link));
	if (rte_eth_link_get_nowait(port, &link) < 0)
		return 0;
	return link.link_status == RTE_ETH_LINK_UP;
}

uint32_t pp_speed_mbps(uint16_t port)
{
	struct rte_eth_link link;

	memset(&link, 0, sizeof(link));
	if (rte_eth_link_get_nowait(port, &link) < 0 ||
	    link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN)
		return 0;
	return link.link_speed;
}

void pp_close(uint16_t port)
{
	struct rte_eth_dev_info dev;
	struct rte_device *device = NULL;

	if (rte_eth_dev_info_get(port, &dev) == 0)
		device = dev.device;
	(void)rte_eth_dev_stop(port);
	(void)rte_eth_dev_close(port);
	if (device != NULL)
		(void)rte_dev_remove(device);
}

/* Takes n mbufs, the i-th of lens[i] bytes; returns n or 0.
 *
 * An mbuf in a pool already has one segment, one reference and no next one
 * (rte_mbuf.h, rte_mbuf_raw_alloc), so what rte_pktmbuf_reset would write is
 * cut down to the fields that a transmit function may read. */
uint16_t pp_alloc(struct rte_mempool *pool, struct rte_mbuf **mbufs,
		  uint8_t **data, const uint16_t *lens, uint16_t n)
{
	uint16_t i;

	if (rte_mempool_get_bulk(pool, (void **)mbufs, n) != 0)
		return 0;
	for (i = 0; i < n; i++) {
		struct rte_mbuf *m = mbufs[i];

		m->data_off = RTE_PKTMBUF_HEADROOM;
		m->ol_flags = 0;
		m->tx_offload = 0;
		m->packet_type = 0;
		m->pkt_len = lens[i];
		m->data_len = lens[i];
		data[i] = (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM;
	}
	return n;
}

/* Moves the lines of frames to the cache that all cores share (Intel SDM,
 * CLDEMOTE): a peer on another core fetches a line from there in less time than
 * from this core's own caches. A processor without the instruction takes its
 * encoding for a NOP. */
static void demote(struct rte_mbuf **mbufs, uint16_t n)
{
#if defined(__x86_64__)
	uint16_t i;

	for (i = 0; i < n; i++) {
		const uint8_t *at = rte_pktmbuf_mtod(mbufs[i], const uint8_t *);
		const uint8_t *end = at + mbufs[i]->data_len;

		at = RTE_PTR_ALIGN_FLOOR(at, RTE_CACHE_LINE_SIZE);
		for (; at < end; at += RTE_CACHE_LINE_SIZE)
			__asm__ volatile(".byte 0x0f, 0x1c, 0x06" : : "S"(at));
	}
#else
	(void)mbufs;
	(void)n;
#endif
}

/* Offers n mbufs; frees those not taken; returns how many were taken. shared:
 * the peer reads frames where they are, from another core. */
uint16_t pp_tx(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs,
	       uint16_t n, uint8_t shared)
{
	uint16_t taken;

	if (shared)
		demote(mbufs, n);
	taken = rte_eth_tx_burst(port, queue, mbufs, n);

	if (unlikely(taken < n))
		rte_pktmbuf_free_bulk(mbufs + taken, n - taken);
	return taken;
}

uint16_t pp_rx(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs,
	       uint8_t **data, uint16_t *lens, uint16_t n)
{
	uint16_t i, got = rte_eth_rx_burst(port, queue, mbufs, n);

	for (i = 0; i < got; i++) {
		/* A frame in pieces is joined if it fits its first piece;
		 * otherwise its first piece stands for it and is accounted
		 * as what it then is, foreign or corrupt. */
		if (unlikely(mbufs[i]->nb_segs > 1))
			(void)rte_pktmbuf_linearize(mbufs[i]);
		data[i] = rte_pktmbuf_mtod(mbufs[i], uint8_t *);
		lens[i] = mbufs[i]->data_len;
	}
	return got;
}

/* Frees received mbufs; a peer that shares them writes later frames there. */
void pp_free(struct rte_mbuf **mbufs, uint16_t n, uint8_t shared)
{
	if (shared)
		demote(mbufs, n);
	rte_pktmbuf_free_bulk(mbufs, n);
}

int pp_missed(uint16_t port, uint64_t *missed)
{
	struct rte_eth_stats stats;
	int rc = rte_eth_stats_get(port, &stats);

	*missed = rc == 0 ? stats.imissed : 0;
	return rc;
}

/* ffi.rs has these two structures, too. */
_Static_assert(sizeof(struct rte_eth_xstat_name) == 64, "rte_eth_xstat_name");
_Static_assert(sizeof(struct rte_eth_xstat) == 16 &&
	       offsetof(struct rte_eth_xstat, value) == 8, "rte_eth_xstat");

/* Names of the extended statistics, by id. Returns how many there are; fills
 * the array only if its room for max of them suffices. */
int pp_xstats_names(uint16_t port, struct rte_eth_xstat_name *names,
		    unsigned int max)
{
	return rte_eth_xstats_get_names(port, names, max);
}

/* Ids and values of the extended statistics; likewise. */
int pp_xstats(uint16_t port, struct rte_eth_xstat *values, unsigned int max)
{
	return rte_eth_xstats_get(port, values, max);
}
