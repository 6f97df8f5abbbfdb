/*
 * dperf names a port by twelve characters, a PCI address. Linked with --wrap (packaging/build-dperf), its calls of DPDK
 * come here first: EAL gets the arguments in $DPERF_EAL, separated by spaces, in place of the address, and port N is
 * DPDK's port N, twelve digits in dperf's configuration. So its ports can be net_memif, net_af_packet and others.
 *
 * dperf ends if its gateway, the other dperf, does not answer ARP within four seconds. On a busy machine that one is not
 * ready by then (it allocates its connections first), so the search is repeated.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 64
#define GATEWAY_TRIES 15 /* of four seconds */

struct work_space;

int __real_rte_eal_init(int argc, char **argv);
int __wrap_rte_eal_init(int argc, char **argv);
int __wrap_rte_eth_dev_get_port_by_name(const char *name, uint16_t *port_id);
int __real_neigh_check_gateway(struct work_space *ws);
int __wrap_neigh_check_gateway(struct work_space *ws);

int __wrap_rte_eal_init(int argc, char **argv)
{
    static char *arguments[ARGUMENTS_MAX + 1];
    const char *given = getenv("DPERF_EAL");
    char *rest = NULL;
    int count = 0;

    if (given == NULL) {
        fprintf(stderr, "dperf: DPERF_EAL is not set: expected arguments of EAL, such as --vdev=net_memif0,role=client\n");
        return -1;
    }
    for (int i = 0; i < argc && count < ARGUMENTS_MAX; i++) {
        if (strcmp(argv[i], "-a") == 0)
            i++;
        else if (argv[i][0] != '\0')
            arguments[count++] = argv[i];
    }
    for (char *word = strtok_r(strdup(given), " ", &rest); word != NULL && count < ARGUMENTS_MAX;
         word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    return __real_rte_eal_init(count, arguments);
}

int __wrap_rte_eth_dev_get_port_by_name(const char *name, uint16_t *port_id)
{
    *port_id = (uint16_t)strtoul(name, NULL, 10);
    return 0;
}

int __wrap_neigh_check_gateway(struct work_space *ws)
{
    for (int tries = 0; tries < GATEWAY_TRIES; tries++)
        if (__real_neigh_check_gateway(ws) >= 0)
            return 0;
    return -1;
}
