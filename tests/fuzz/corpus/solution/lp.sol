# Objective value = 0
task_0_0_0_0 1
task_0_0_1_1 1
task_0_0_2_2 1
task_0_1_2_1 1
task_0_1_1_0 1
task_0_2_2_0 1
task_1_0_0_3 1
task_1_0_1_4 1
task_1_0_2_5 1
task_1_1_2_4 1
task_1_1_1_3 1
task_1_2_2_3 1
start_0_0_0 1
